import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parseSourceFile } from './support/architecture/source-file.ts';
import { findDetours, measure, wayOfTick } from './support/budget/measure.ts';

const file = path.join(import.meta.dirname, 'budget.json');
const source = path.resolve(import.meta.dirname, '../src');

function readBudget(): Record<string, number> {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
}

type Figures = Readonly<Record<string, number>>;

/** One line for each figure above its budget. A new figure has none: it is above. */
function findExcess(figures: Figures, budget: Figures): string[] {
  return Object.entries(figures).flatMap(([name, figure]) => {
    const limit = budget[name];
    if (limit === undefined) return [`${name}: ${figure}, not in test/budget.json`];
    return figure > limit ? [`${name}: ${figure}, ${figure - limit} above ${limit}`] : [];
  });
}

/** A budget only falls: figures below it become the budget, and what is no longer measured leaves it. */
function lower(figures: Figures, budget: Figures): Figures {
  return Object.fromEntries(
    Object.entries(figures)
      .filter(([name]) => budget[name] !== undefined)
      .map(([name, figure]) => [name, Math.min(figure, budget[name] ?? figure)]),
  );
}

test('no figure is above its budget', async () => {
  const figures = await measure();
  // `npm run budget` sets this.
  if (process.env.SLUICE_LOWER_BUDGET) {
    writeFileSync(file, `${JSON.stringify(lower(figures, readBudget()), null, 2)}\n`);
  }
  expect(findExcess(figures, readBudget())).toEqual([]);
});

test('the list from tick to file is the truth', () => {
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => parseSourceFile(name, readFileSync(path.join(source, name), 'utf8')));
  const way = wayOfTick();
  expect(findDetours(way, files)).toEqual([]);
  // The list goes from the definition of the tick to the record of the run.
  expect(way.length).toBeGreaterThan(20);
  const stranger = { path: 'foundation/domain/clock.ts', byJob: false };
  const [first] = way;
  if (!first) throw new Error('the list is empty');
  expect(findDetours([first, stranger], files)).toHaveLength(1);
  expect(findDetours([first, { ...stranger, byJob: true }], files)).toEqual([]);
  expect(findDetours([first, { path: 'worker/gone.ts', byJob: true }], files)).toHaveLength(1);
  expect(findDetours([first, first], files)).toHaveLength(1);
});

test('a figure above its budget is named, and a budget never rises', () => {
  expect(findExcess({ lines: 12, rooms: 3 }, { lines: 10, rooms: 3 })).toEqual([
    'lines: 12, 2 above 10',
  ]);
  expect(findExcess({ lines: 12 }, {})).toHaveLength(1);
  expect(lower({ lines: 12, rooms: 2 }, { lines: 10, rooms: 3, gone: 4 })).toEqual({
    lines: 10,
    rooms: 2,
  });
});
