import {
  bare,
  complete,
  completeOver,
  type Facts,
  put,
  race,
  replace,
  said,
  succeeded,
  tagOf,
  uploadOne,
  wrongTag,
} from './asking.ts';

export const conditionFacts: Facts = {
  'PUT, If-None-Match: *, nothing there': async (s) =>
    said(await put(s, 'facts/none/new', 'first', { 'if-none-match': '*' })),
  'PUT, If-None-Match: *, object there': (s) =>
    replace(s, 'facts/none/there', () => ({ 'if-none-match': '*' })),
  'PUT, If-None-Match: *, eight at once': (s) =>
    race((i) => put(s, 'facts/none/race', `writer ${i}`, { 'if-none-match': '*' })),
  'PUT, If-Match: "right tag"': (s) =>
    replace(s, 'facts/match/q-right', (tag) => ({ 'if-match': `"${bare(tag)}"` })),
  'PUT, If-Match: right tag, no quotes': (s) =>
    replace(s, 'facts/match/u-right', (tag) => ({ 'if-match': bare(tag) })),
  'PUT, If-Match: "wrong tag"': (s) =>
    replace(s, 'facts/match/q-wrong', () => ({ 'if-match': `"${wrongTag}"` })),
  'PUT, If-Match: wrong tag, no quotes': (s) =>
    replace(s, 'facts/match/u-wrong', () => ({ 'if-match': wrongTag })),
  'PUT, If-Match: tag, nothing there': async (s) => {
    const answers = [`"${wrongTag}"`, wrongTag].map(async (tag, i) =>
      said(await put(s, `facts/match/nothing-${i}`, 'x', { 'if-match': tag })),
    );
    return (await Promise.all(answers)).join(' / no quotes: ');
  },
  'PUT, If-Match: right tag in the form it takes, eight at once': async (s) => {
    const key = 'facts/match/race';
    const tag = tagOf(await put(s, key, 'first'));
    // One that is refused in quotes is tried without, and stays the right one all the while.
    const form = (await put(s, key, 'first', { 'if-match': tag })).status < 300 ? tag : bare(tag);
    return await race((i) => put(s, key, `writer ${i}`, { 'if-match': form }));
  },
  'GET, If-Match: "right tag" / no quotes': async (s) => {
    const tag = bare(tagOf(await put(s, 'facts/get-match', 'x')));
    const quoted = await s.raw({ key: 'facts/get-match', headers: { 'if-match': `"${tag}"` } });
    const plain = await s.raw({ key: 'facts/get-match', headers: { 'if-match': tag } });
    return `${said(quoted)} / ${said(plain)}`;
  },
  'Complete, If-None-Match: *, nothing there': async (s) => {
    const { id, parts } = await uploadOne(s, 'facts/complete/new', 'first');
    return said(await complete(s, 'facts/complete/new', id, parts, { 'if-none-match': '*' }));
  },
  'Complete, If-None-Match: *, object there': (s) =>
    completeOver(s, 'facts/complete/there', () => ({ 'if-none-match': '*' })),
  'Complete, If-None-Match: *, four at once, ten times': async (s) => {
    const rounds: string[] = [];
    for (let round = 0; round < 10; round += 1) {
      const key = `facts/complete/race ${round}`;
      const ready = await Promise.all(['a', 'b', 'c', 'd'].map((text) => uploadOne(s, key, text)));
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
  'Complete, If-Match: "right tag"': (s) =>
    completeOver(s, 'facts/complete/q-right', (tag) => ({ 'if-match': `"${bare(tag)}"` })),
  'Complete, If-Match: right tag, no quotes': (s) =>
    completeOver(s, 'facts/complete/u-right', (tag) => ({ 'if-match': bare(tag) })),
  'Complete, If-Match: "wrong tag"': (s) =>
    completeOver(s, 'facts/complete/q-wrong', () => ({ 'if-match': `"${wrongTag}"` })),
  'Complete, If-Match: wrong tag, no quotes': (s) =>
    completeOver(s, 'facts/complete/u-wrong', () => ({ 'if-match': wrongTag })),
};
