import {
  bare,
  complete,
  completeOver,
  type Fact,
  put,
  race,
  replace,
  said,
  succeeded,
  tagOf,
  uploadOne,
  wrongTag,
} from './asking.ts';

export const conditionFacts: readonly Fact[] = [
  {
    question: 'PUT, If-None-Match: *, nothing there',
    ask: async (s) => said(await put(s, 'facts/none/new', 'first', { 'if-none-match': '*' })),
  },
  {
    question: 'PUT, If-None-Match: *, object there',
    ask: (s) => replace(s, 'facts/none/there', () => ({ 'if-none-match': '*' })),
  },
  {
    question: 'PUT, If-None-Match: *, eight at once',
    ask: (s) => race((i) => put(s, 'facts/none/race', `writer ${i}`, { 'if-none-match': '*' })),
  },
  {
    question: 'PUT, If-Match: "right tag"',
    ask: (s) => replace(s, 'facts/match/q-right', (tag) => ({ 'if-match': `"${bare(tag)}"` })),
  },
  {
    question: 'PUT, If-Match: right tag, no quotes',
    ask: (s) => replace(s, 'facts/match/u-right', (tag) => ({ 'if-match': bare(tag) })),
  },
  {
    question: 'PUT, If-Match: "wrong tag"',
    ask: (s) => replace(s, 'facts/match/q-wrong', () => ({ 'if-match': `"${wrongTag}"` })),
  },
  {
    question: 'PUT, If-Match: wrong tag, no quotes',
    ask: (s) => replace(s, 'facts/match/u-wrong', () => ({ 'if-match': wrongTag })),
  },
  {
    question: 'PUT, If-Match: tag, nothing there',
    ask: async (s) => {
      const answers = [`"${wrongTag}"`, wrongTag].map(async (tag, i) =>
        said(await put(s, `facts/match/nothing-${i}`, 'x', { 'if-match': tag })),
      );
      return (await Promise.all(answers)).join(' / no quotes: ');
    },
  },
  {
    question: 'PUT, If-Match: right tag in the form it takes, eight at once',
    ask: async (s) => {
      const key = 'facts/match/race';
      const tag = tagOf(await put(s, key, 'first'));
      // One that is refused in quotes is tried without, and stays the right one all the while.
      const form = (await put(s, key, 'first', { 'if-match': tag })).status < 300 ? tag : bare(tag);
      return await race((i) => put(s, key, `writer ${i}`, { 'if-match': form }));
    },
  },
  {
    question: 'GET, If-Match: "right tag" / no quotes',
    ask: async (s) => {
      const tag = bare(tagOf(await put(s, 'facts/get-match', 'x')));
      const quoted = await s.raw({ key: 'facts/get-match', headers: { 'if-match': `"${tag}"` } });
      const plain = await s.raw({ key: 'facts/get-match', headers: { 'if-match': tag } });
      return `${said(quoted)} / ${said(plain)}`;
    },
  },
  {
    question: 'Complete, If-None-Match: *, nothing there',
    ask: async (s) => {
      const { id, parts } = await uploadOne(s, 'facts/complete/new', 'first');
      return said(await complete(s, 'facts/complete/new', id, parts, { 'if-none-match': '*' }));
    },
  },
  {
    question: 'Complete, If-None-Match: *, object there',
    ask: (s) => completeOver(s, 'facts/complete/there', () => ({ 'if-none-match': '*' })),
  },
  {
    question: 'Complete, If-None-Match: *, four at once, ten times',
    ask: async (s) => {
      const rounds: string[] = [];
      for (let round = 0; round < 10; round += 1) {
        const key = `facts/complete/race ${round}`;
        const ready = await Promise.all(
          ['a', 'b', 'c', 'd'].map((text) => uploadOne(s, key, text)),
        );
        const answers = ready.map(({ id, parts }) =>
          complete(s, key, id, parts, { 'if-none-match': '*' }),
        );
        const won = (await Promise.all(answers)).filter(succeeded).length;
        rounds.push(won === 1 ? 'one succeeds' : won === 4 ? 'all succeed' : 'some succeed');
      }
      const seen = new Set(rounds);
      // How many get through before the first has ended is a matter of luck.
      return seen.size === 1 ? (rounds[0] ?? '') : 'more than one succeeds';
    },
  },
  {
    question: 'Complete, If-Match: "right tag"',
    ask: (s) =>
      completeOver(s, 'facts/complete/q-right', (tag) => ({ 'if-match': `"${bare(tag)}"` })),
  },
  {
    question: 'Complete, If-Match: right tag, no quotes',
    ask: (s) => completeOver(s, 'facts/complete/u-right', (tag) => ({ 'if-match': bare(tag) })),
  },
  {
    question: 'Complete, If-Match: "wrong tag"',
    ask: (s) => completeOver(s, 'facts/complete/q-wrong', () => ({ 'if-match': `"${wrongTag}"` })),
  },
  {
    question: 'Complete, If-Match: wrong tag, no quotes',
    ask: (s) => completeOver(s, 'facts/complete/u-wrong', () => ({ 'if-match': wrongTag })),
  },
];
