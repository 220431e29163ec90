import { expect, test } from 'vitest';
import { describeStep, isLongStep } from '../../../src/foundation/domain/run-step.ts';
import { StepWatch } from '../../../src/service/worker/step-watch.ts';

function watched() {
  let now = 0;
  const watch = new StepWatch(() => now);
  const pass = (seconds: number) => {
    now += seconds * 1_000;
  };
  return { watch, pass };
}

test('says that a source has sent no row, and since when', () => {
  const { watch, pass } = watched();
  pass(1);
  watch.enter('first_row');
  pass(420);
  expect(watch.current()).toEqual({ name: 'first_row', seconds: 420 });
  expect(describeStep(watch.current(), 2)).toBe(
    'reading from the source for 7 min, the first row has not come; usually 2 s',
  );
});

test.each([
  ['read', 20, 1],
  ['write', 1, 20],
] as const)(
  'of rows that are read and written in turn it names what takes longer: %s',
  (name, read, write) => {
    const { watch, pass } = watched();
    watch.enter('first_row');
    for (let block = 0; block < 10; block += 1) {
      pass(read);
      watch.enter('write');
      pass(write);
      watch.enter('read');
    }
    pass(read);
    expect(watch.current()).toEqual({ name, seconds: 10 * (read + write) + read });
  },
);

test('names a step that goes on for half a minute alone, whatever took longer before', () => {
  const { watch, pass } = watched();
  watch.enter('first_row');
  pass(300);
  watch.enter('write');
  pass(10);
  expect(watch.current().name).toBe('read');
  pass(25);
  expect(watch.current()).toEqual({ name: 'write', seconds: 35 });
});

test('a step is long after a minute, and three times as long as a usual run', () => {
  const long = (seconds: number, usual: number | null) =>
    isLongStep({ name: 'read', seconds }, usual);
  expect([long(59, null), long(60, null), long(60, 2), long(100, 40), long(120, 40)]).toEqual([
    ...[false, true, true, false, true],
  ]);
});

test('the log says a long step once after a minute and again later, each step for itself', () => {
  const { watch, pass } = watched();
  watch.enter('first_row');
  pass(59);
  expect(watch.nextLine()).toBeNull();
  pass(1);
  expect(watch.nextLine()).toBe('Reading from the source for 1 min, the first row has not come.');
  pass(60);
  expect(watch.nextLine()).toBeNull();
  pass(180);
  expect(watch.nextLine()).toBe('Reading from the source for 5 min, the first row has not come.');
  watch.enter('commit');
  pass(61);
  expect(watch.nextLine()).toBe('Committing at the destination for 1 min.');
});
