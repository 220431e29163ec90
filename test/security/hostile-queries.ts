import fc from 'fast-check';

/** Texts that are long, repeat themselves, or become something much larger when they are read. */
export const hostileTexts: readonly string[] = [
  'a'.repeat(300_000),
  `${'a'.repeat(1_000)}b`,
  ','.repeat(90_000),
  '1e131071',
  '-7.7e65000',
  '9'.repeat(120_000),
  `{${'1e9,'.repeat(20_000)}1}`,
  `${'%a'.repeat(500)}_`,
  '"\\'.repeat(40_000),
  'ŉΐⱥ😀'.repeat(9_000),
  '2024-02-29 23:59:60',
  '999999',
  '',
];

const names = ['event', 'distinct_id', 'elements_chain', 'properties.a', 'properties.b.c'];
const literals = [
  `'a'`,
  `','`,
  `'%a%a%a%a'`,
  `''`,
  'NULL',
  `'{a,b}'`,
  `'1e900'`,
  `'${'ab'.repeat(500)}'`,
  `'${'x'.repeat(90)}'`,
];

const sizes = fc.constantFrom('0', '1', '100', '1000', '-1', '100000');

/** Text of expressions that the types of the server mostly take, made of what grows and what is dear. */
const { text } = fc.letrec<Record<'text' | 'needle' | 'array' | 'number' | 'truth', string>>(
  (tie) => {
    const inner = tie('text');
    const needle = tie('needle');
    const call = (name: string, ...parts: fc.Arbitrary<string>[]) =>
      fc.tuple(...parts).map((args) => `${name}(${args.join(', ')})`);
    return {
      needle: fc.oneof(
        { weight: 3, arbitrary: fc.constantFrom(...names, ...literals) },
        { weight: 1, arbitrary: inner },
      ),
      text: fc.oneof(
        { maxDepth: 5 },
        fc.constantFrom(...names, ...literals),
        fc
          .tuple(fc.constantFrom('lower', 'upper', 'initcap', 'reverse'), inner)
          .map(([f, x]) => `${f}(${x})`),
        call('replace', inner, needle, fc.constantFrom(`'bb'`, `'${'b'.repeat(100)}'`)),
        call('translate', inner, needle, fc.constant(`'😀😀😀'`)),
        call('split_part', inner, needle, fc.constantFrom('1', '-1', '99999')),
        call('btrim', inner, needle),
        call('concat', inner, inner, inner),
        call('concat_ws', inner, inner, inner, inner),
        call('lpad', inner, fc.constantFrom('1000', '0'), needle),
        call('left', inner, sizes),
        call('substr', inner, sizes, fc.constantFrom('1', '1000', '100000')),
        call('overlay', inner, inner, sizes),
        call('array_to_string', tie('array'), needle),
        call('to_char', tie('number'), fc.constantFrom(`'${'9'.repeat(900)}'`, `'V999'`, 'event')),
        call(
          'encode',
          call('convert_to', inner, fc.constant(`'UTF8'`)),
          fc.constantFrom(`'hex'`, `'escape'`),
        ),
        fc.tuple(inner, inner).map(([left, right]) => `(${left} || ${right})`),
        fc
          .tuple(tie('truth'), inner, inner)
          .map(([x, y, z]) => `CASE WHEN ${x} THEN ${y} ELSE ${z} END`),
        fc.oneof(tie('number'), tie('array'), tie('truth')).map((part) => `(${part})::text`),
        fc
          .tuple(inner, fc.constantFrom('varchar(9)', 'varchar(90000)'))
          .map(([x, t]) => `(${x})::${t}`),
        fc.constantFrom(`(properties || '{"z":1e99}')::text`, `(properties - 'a')::text`),
      ),
      array: fc.oneof(
        { maxDepth: 3 },
        call('string_to_array', inner, needle),
        fc
          .array(inner, { minLength: 1, maxLength: 4 })
          .map((items) => `ARRAY[${items.join(', ')}]`),
        fc
          .tuple(inner, fc.constantFrom('text[]', 'int8[]', 'numeric[]', 'interval[]'))
          .map(([x, t]) => `(${x})::${t}`),
      ),
      number: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom('1e99', '0.5', 'price', `'1e900'::numeric`),
        inner.map((part) => `(${part})::numeric`),
        inner.map((part) => `(${part})::numeric(900, 100)`),
        call('strpos', inner, needle),
        call('length', inner),
        fc
          .tuple(tie('number'), fc.constantFrom('+', '-', '*', '/', '%'), tie('number'))
          .map((parts) => `(${parts.join(' ')})`),
        call('div', tie('number'), tie('number')),
        call('round', tie('number'), fc.constantFrom('0', '16383', '-5')),
      ),
      truth: fc.oneof(
        { maxDepth: 3 },
        fc
          .tuple(inner, fc.constantFrom('LIKE', 'NOT ILIKE'), needle)
          .map((parts) => `(${parts.join(' ')})`),
        fc
          .tuple(tie('array'), fc.constantFrom('@>', '&&', '<@'), tie('array'))
          .map((parts) => `(${parts.join(' ')})`),
        fc
          .tuple(inner, fc.constantFrom('=', '<'), tie('array'))
          .map(([x, o, a]) => `(${x} ${o} ANY (${a}))`),
        fc.tuple(inner, inner).map((parts) => `(${parts.join(' = ')})`),
        inner.map((part) => `(${part} IS NULL)`),
      ),
    };
  },
);

/** An expression of type text that may be refused. */
export const hostileExpression: fc.Arbitrary<string> = text;
