import { describe, expect, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { createLogger, screenLines } from '../../../src/foundation/telemetry/logger.ts';
import {
  type Dependency,
  isBrokenConnection,
  Outages,
} from '../../../src/foundation/telemetry/outages.ts';
import { isDatabaseUnavailable } from '../../../src/state/store/database/unavailable.ts';
import { until } from '../../support/until.ts';

const refused = Object.assign(new Error('connect ECONNREFUSED 10.1.2.3:6379'), {
  code: 'ECONNREFUSED',
});

function watched() {
  const lines: { level: string; msg: string; errors?: number }[] = [];
  const logger = createLogger('info', {}, { write: (text) => void lines.push(JSON.parse(text)) });
  const down = new Set<string>();
  let probes = 0;
  let now = 0;
  const dependency = (name: Dependency['name'], setting: string): Dependency => ({
    name,
    setting,
    effect: 'Nothing is lost.',
    probe: async () => {
      probes += 1;
      if (down.has(name)) throw refused;
    },
  });
  const dependencies = [dependency('postgres', 'DATABASE_URL'), dependency('redis', 'REDIS_URL')];
  const outages = new Outages(logger, dependencies, () => now);
  screenLines(logger, outages);
  return {
    outages,
    logger,
    lines,
    down,
    probes: () => probes,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

describe('an outage', () => {
  test('is one line per dependency and 30 seconds, with the setting, and one when it is over', async () => {
    const { outages, logger, lines, down, pass } = watched();
    down.add('redis');
    const child = logger.child({ reqId: '1' });
    for (let n = 0; n < 500; n += 1)
      (n % 2 ? logger : child).warn({ err: refused }, 'a job failed');
    await until(() => lines.length > 0);
    for (let n = 0; n < 500; n += 1) logger.error(refused, 'a job failed');
    expect(lines.map(({ msg }) => msg)).toEqual([
      'REDIS_URL: Redis is unreachable (ECONNREFUSED). Nothing is lost.',
    ]);
    pass(29_000);
    await outages.look();
    expect(lines).toHaveLength(1);
    pass(1_000);
    await outages.look();
    expect(lines[1]?.msg).toBe(
      'REDIS_URL: Redis is unreachable for 30 s (ECONNREFUSED). Nothing is lost.',
    );
    // What was not written is counted.
    expect(lines[1]?.errors).toBeGreaterThanOrEqual(500);
    down.clear();
    await outages.look();
    expect(await outages.look()).toEqual(
      new Map([
        ['postgres', true],
        ['redis', true],
      ]),
    );
    expect(lines.slice(2).map(({ level, msg }) => [level, msg])).toEqual([
      ['info', 'REDIS_URL: Redis is reachable again after 30 s.'],
    ]);
    outages.close();
  });

  test('is one line also if a session that is ended next still answers', async () => {
    const { outages, logger, lines, down, probes } = watched();
    logger.warn({ err: new Error('Connection terminated unexpectedly') }, 'a connection failed');
    await until(() => probes() === 2);
    down.add('postgres');
    await until(() => lines.length > 0);
    expect(lines.map(({ msg }) => msg)).toEqual([
      'DATABASE_URL: PostgreSQL is unreachable (ECONNREFUSED). Nothing is lost.',
    ]);
    outages.close();
  });

  test('that no probe has seen is one line for each text, and the number of the others', async () => {
    const { logger, lines } = watched();
    for (let n = 0; n < 40; n += 1) {
      logger.warn({ err: refused, run: n }, 'a job failed');
      logger.error(new Error('Connection terminated unexpectedly'));
    }
    await until(() => lines.length >= 3);
    expect(lines.map(({ msg }) => msg)).toEqual([
      'a job failed',
      'Connection terminated unexpectedly',
      '78 more lines about broken connections',
    ]);
  });

  test('of both is a line for each', async () => {
    const { outages, lines, down } = watched();
    down.add('redis').add('postgres');
    await Promise.all([outages.look(), outages.look()]);
    expect(lines.map(({ msg }) => msg.split(':')[0]).toSorted()).toEqual([
      'DATABASE_URL',
      'REDIS_URL',
    ]);
    outages.close();
  });

  test('of something else hides no line', async () => {
    const { outages, logger, lines, probes } = watched();
    logger.warn({ err: refused }, 'a receiver does not answer');
    logger.warn({ err: new Error('odd') }, 'odd');
    await until(() => lines.length === 2);
    expect(lines.map(({ msg }) => msg).toSorted()).toEqual(['a receiver does not answer', 'odd']);
    const asked = probes();
    logger.info('a line without an error');
    await outages.look();
    // Two for the look: nothing is probed without an error.
    expect(probes()).toBe(asked + 2);
    outages.close();
  });
});

test('errors of places are not outages of ours', () => {
  expect(isBrokenConnection(new SluiceError('destination.unavailable', undefined, refused))).toBe(
    false,
  );
  expect(isBrokenConnection(new Error('sweep', { cause: refused }))).toBe(true);
  expect(isBrokenConnection(new AggregateError([refused]))).toBe(true);
  expect(isBrokenConnection(new Error('Connection is closed.'))).toBe(true);
  expect(isBrokenConnection(new Error('Connection terminated unexpectedly'))).toBe(true);
  expect(isBrokenConnection('ECONNREFUSED')).toBe(false);
  expect(isBrokenConnection(new SluiceError('internal.database_unavailable'))).toBe(true);
});

const withCode = (code: string) => Object.assign(new Error('no'), { code });

test.each(['53100', '58030', '40P01', '40001', '55P03', '57014', '08006'])(
  'a statement that ended with %s may be repeated: it did not cause that',
  (code) => {
    expect(isDatabaseUnavailable(withCode(code))).toBe(true);
  },
);

test.each(['23505', '23P01', '42703', '22P02', '54000'])(
  'a statement that ended with %s may not: it would end so again',
  (code) => {
    expect(isDatabaseUnavailable(withCode(code))).toBe(false);
  },
);
