import type { Config } from '../foundation/config/config.ts';
import { eventsModel } from '../foundation/domain/events-model.ts';
import { checkModel, type ModelReport } from '../rows/sources/index.ts';
import { addressNamesOf, loadModels, primaryUrlOf } from './models.ts';

export interface CheckedModel extends ModelReport {
  readonly model: string;
}

/** The models as `sluice models list` shows them; `own_source`: whether it has its own database. */
export function listModels(config: Config) {
  return loadModels(config).map(({ model, sourceUrl }) => ({
    name: model.name,
    relation: `${model.relation.schema}.${model.relation.name}`,
    tenant: model.tenantColumn,
    interval: model.intervalColumn,
    keys: model.keyColumns,
    columns: model.columns.length,
    own_source: sourceUrl !== null,
  }));
}

/**
 * Checks every model against its database, one after another.
 *
 * @param findSource finds the address for models without their own database; called only if there are any
 * @param tenantKeys of the projects
 * @param sharedFault what is wrong with the address of models without their own database; null if nothing is
 * @param isExported whether there is an export of a model; only asked if the table of the built-in one is missing
 */
export async function checkModels(
  config: Config,
  findSource: () => Promise<string>,
  tenantKeys: readonly string[],
  isExported: (model: string) => Promise<boolean>,
  sharedFault: string | null = null,
): Promise<readonly CheckedModel[]> {
  const checked: CheckedModel[] = [];
  for (const sourced of loadModels(config, true)) {
    const { model, sourceUrl, sourceName } = sourced;
    const fault = sourced.addressFault ?? (sourceName === undefined ? sharedFault : null);
    const report =
      fault === null
        ? await checkModel(sourceUrl ?? (await findSource()), model, tenantKeys, {
            primaryUrl: primaryUrlOf(config, sourced),
            allowUnsettledStandby: config.ALLOW_UNSETTLED_STANDBY,
            ...addressNamesOf(sourced),
          })
        : { findings: [{ severity: 'error' as const, detail: `${fault}` }], plan: [] };
    const isUnused =
      model === eventsModel &&
      config.MODELS_FILE !== null &&
      report.findings.some(isMissing) &&
      !(await isExported(model.name));
    checked.push({ model: model.name, ...(isUnused ? asUnused(report) : report) });
  }
  return checked;
}

/**
 * An installation with models of its own need not have the table of the built-in one: that it is missing is no
 * fault unless an export uses it.
 */
function asUnused(report: ModelReport): ModelReport {
  const { schema, name } = eventsModel.relation;
  const detail = `The relation ${schema}.${name} of the built-in model does not exist. Exports of ${name} are refused; other models do not need it.`;
  // Errors are of runs, and there are none.
  const others = report.findings.filter(({ severity }) => severity !== 'error');
  return { ...report, findings: [{ severity: 'warning', detail }, ...others] };
}

function isMissing({ detail }: ModelReport['findings'][number]): boolean {
  const { schema, name } = eventsModel.relation;
  return detail.startsWith(`The relation ${schema}.${name} does not exist.`);
}
