import { expect, it } from 'vitest';
import { AloneTurns } from '../../../src/service/worker/alone-turns.ts';

/** Work that says when it begins, and ends when it is asked to. */
function workOf(begun: string[], name: string) {
  let end = () => {};
  const ended = new Promise<string>((resolve) => {
    end = () => resolve(name);
  });
  const work = () => {
    begun.push(name);
    return ended;
  };
  return { work, end: () => end() };
}

const live = new AbortController().signal;

it('lets one begin after the other, also after one that failed', async () => {
  const turns = new AloneTurns();
  const begun: string[] = [];
  const [first, third] = [workOf(begun, 'first'), workOf(begun, 'third')];
  const ends = [
    turns.do(live, first.work),
    turns.do(live, () => Promise.reject(new Error('second'))).catch(String),
    turns.do(live, third.work),
  ];
  await new Promise(setImmediate);
  expect(begun).toEqual(['first']);
  first.end();
  third.end();
  expect(await Promise.all(ends)).toEqual(['first', 'Error: second', 'third']);
});

it('does not let the next one pass when one gives up', async () => {
  const turns = new AloneTurns();
  const begun: string[] = [];
  const first = workOf(begun, 'first');
  const third = workOf(begun, 'third');
  const leaving = new AbortController();
  const one = turns.do(live, first.work);
  const two = turns.do(leaving.signal, workOf(begun, 'second').work);
  const three = turns.do(live, third.work);
  leaving.abort();
  expect(await two).toBeNull();
  expect(begun).toEqual(['first']);
  first.end();
  third.end();
  expect(await Promise.all([one, three])).toEqual(['first', 'third']);
  expect(begun).toEqual(['first', 'third']);
});
