import { describe } from 'vitest';
import { describeS3Protocol } from './s3-protocol.ts';
import { protocolTargets } from './s3-protocol-targets.ts';

for (const target of protocolTargets) {
  if (target.missing === undefined) describeS3Protocol(target);
  else describe.skip(`${target.name}: ${target.missing}`, () => describeS3Protocol(target));
}
