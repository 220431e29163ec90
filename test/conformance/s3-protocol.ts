import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { conditionRules } from './s3-protocol-conditions.ts';
import { multipartRules } from './s3-protocol-multipart.ts';
import { objectRules } from './s3-protocol-objects.ts';
import { signatureRules } from './s3-protocol-signatures.ts';
import {
  openSubject,
  type Rules,
  type RunningTarget,
  type Subject,
} from './s3-protocol-subject.ts';

/** Every rule of the protocol that the suite knows. */
export const protocolRules: Rules = {
  ...signatureRules,
  ...objectRules,
  ...conditionRules,
  ...multipartRules,
};

export interface ProtocolTarget {
  name: string;
  start(): Promise<RunningTarget>;
  /** Why the server cannot run here; its suite is then shown as skipped. */
  missing?: string | undefined;
  /**
   * The rules that this server does not keep, and what it does instead. Each is run all the same and
   * must fail: a difference that no longer exists has to be removed from the list.
   */
  differences: Record<string, string>;
}

/** Runs every rule against one server. */
export function describeS3Protocol(target: ProtocolTarget): void {
  describe(target.name, () => {
    let running: RunningTarget;
    let subject: Subject;
    beforeAll(async () => {
      running = await target.start();
      subject = openSubject(running);
    });
    afterAll(async () => {
      subject?.s3.destroy();
      await running?.close();
    });

    test('names only rules that exist in its differences', () => {
      expect(Object.keys(protocolRules)).toEqual(
        expect.arrayContaining(Object.keys(target.differences)),
      );
    });
    for (const [rule, check] of Object.entries(protocolRules)) {
      const difference = target.differences[rule];
      if (difference === undefined) test(rule, () => check(subject));
      else test.fails(`NOT HERE: ${rule} (${difference})`, () => check(subject));
    }
  });
}
