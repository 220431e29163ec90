import type { StepCount } from '../domain/recipe.ts';
import type { Column, RowBlock } from '../domain/row-block.ts';
import type { FileEncoder } from '../encoders/encoder.ts';
import type { SourceSnapshot } from '../sources/source.ts';
import type { Step } from '../transforms/step.ts';
import { RowTransformer } from '../transforms/transform-rows.ts';

/**
 * A chain over the blocks of a snapshot of `columns`.
 *
 * @param openJsonLines opens plain JSON Lines: the form in which steps see a row
 */
export function openTransformer(
  steps: readonly Step[],
  { columns, projection }: SourceSnapshot,
  openJsonLines: (columns: readonly Column[]) => FileEncoder,
): RowTransformer {
  if (!projection) throw new Error('the snapshot has no projection');
  return new RowTransformer(steps, {
    ...projection,
    columns,
    async toJsonLines(block: RowBlock) {
      const encoder = openJsonLines(columns);
      const chunks = [...(await encoder.write(block)), ...(await encoder.finish())];
      return Buffer.concat(chunks).toString('utf8');
    },
  });
}

/** What became of the rows in each step, for the run's record. */
export function countSteps({ steps }: Pick<RowTransformer, 'steps'>): readonly StepCount[] {
  return steps.map(({ step, counters, errors }) => ({
    config: step.id,
    ...counters,
    error: errors[0]?.reason ?? null,
  }));
}

/** One line per step and one per kind of error, for the run's log. */
export function describeSteps({ steps }: RowTransformer): readonly {
  readonly level: 'INFO' | 'WARNING';
  readonly message: string;
}[] {
  return steps.flatMap(({ step: { id, name, onError }, counters, errors }) => {
    const { in: rows, out, dropped, errored } = counters;
    const message = `Step ${id} (${name}): ${rows} rows in, ${out} out, ${dropped} dropped, ${errored} with errors.`;
    const fate = onError === 'reject' ? 'were rejected' : 'went on without this step';
    return [
      { level: 'INFO' as const, message },
      ...errors.map(({ reason, rows: count, firstKey }) => ({
        level: 'WARNING' as const,
        message: `Step ${id} (${name}): ${count} rows ${fate}. ${reason} The first: ${JSON.stringify(firstKey)}`,
      })),
    ];
  });
}
