import {
  type ExportMode,
  type ExportSettings,
  exportSettings,
} from '../../../foundation/domain/export-settings.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import type { ExportRules } from './rules.ts';

/** The parts of an export that its mode must fit. */
export interface Moded
  extends Pick<ExportSettings, 'mode' | 'keepSnapshots' | 'lookBackHours' | 'newBase'> {
  readonly model: string;
  readonly config: DestinationConfig;
}

/** Finds the problems of the mode of an export. */
export function checkMode(
  rules: Pick<ExportRules, 'models'>,
  { mode, keepSnapshots, lookBackHours, newBase, model, config }: Moded,
): Problem[] {
  const problems: Problem[] = [];
  const refuse = (attr: string, detail: string) =>
    problems.push({ code: 'invalid_input', detail, attr });
  const declared = rules.models.find(({ name }) => name === model);
  if (mode === 'changes' && !declared?.changes) {
    refuse(
      'mode',
      `The model ${model} has no version_column, so nothing says which rows changed. Send mode snapshot, or ask your operator to name the column in MODELS_FILE.`,
    );
  }
  if (mode !== 'changes' && newBase !== exportSettings.newBase.default) {
    refuse('new_base', 'new_base is for mode changes. Leave it out.');
  }
  if (mode === 'append' && declared?.intervalColumn === null) {
    refuse(
      'mode',
      `The model ${model} has no interval_column, so nothing says when a row arrived. Send mode snapshot, or ask your operator to name the column in MODELS_FILE.`,
    );
  }
  const preset = exportSettings.keepSnapshots.default;
  if (mode !== 'snapshot' && keepSnapshots !== preset && keepSnapshots !== null) {
    refuse('keep_snapshots', 'keep_snapshots is for mode snapshot. Leave it out.');
  }
  if (mode !== 'append' && lookBackHours !== null) {
    refuse(
      'look_back_hours',
      `look_back_hours is for mode append. With mode ${mode}, the next run has what came late. Leave it out.`,
    );
  }
  if (mode !== 'append' && !readFileSettings(config).writesManifest) {
    refuse(
      'destination__config__manifest',
      `Mode ${mode} needs a manifest, which says what the files are. Set manifest to true.`,
    );
  }
  return problems;
}

/** Finds the fault of a query of mode changes: readers apply changes by key. */
export function checkKeys(mode: ExportMode, missingKeys: readonly string[]): Problem[] {
  if (mode !== 'changes' || missingKeys.length === 0) return [];
  const names = missingKeys.join(', ');
  return [
    {
      code: 'invalid_input',
      detail: `With mode changes, readers apply rows by their key. Add ${names} to the SELECT list, as it is.`,
      attr: 'dsl_query',
    },
  ];
}

/**
 * Refuses what makes runs of the past.
 *
 * @throws Refusal if the mode has none
 */
export function refusePast(mode: ExportMode, attr: string | null): void {
  if (mode !== 'append') throw new Refusal(noPast(mode, attr));
}

export const noPast = (mode: ExportMode, attr: string | null): Problem => ({
  code: 'invalid_input',
  detail: `An export of mode ${mode} has no past: the source has only its present rows, which the next tick exports. ${mode === 'changes' ? 'To get all rows again, raise new_base.' : 'To export now, retry the newest run.'}`,
  attr,
});

/** Its files would be read by another rule. */
export const modeIsFixed = (mode: ExportMode): Problem => ({
  code: 'invalid_input',
  detail: `The export has had runs, so its mode stays ${mode}. Leave mode out, or create another export with its own prefix.`,
  attr: 'mode',
});
