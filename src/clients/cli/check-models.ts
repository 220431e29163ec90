import type { Config } from '../../foundation/config/config.ts';
import type { ExportMode } from '../../foundation/domain/export-settings.ts';
import { modesOf } from '../../foundation/domain/model.ts';
import { eventsModel } from '../../foundation/domain/events-model.ts';
import { checkModel, type ModelReport } from '../../rows/sources/index.ts';
import { addressNamesOf, findOfferedModels, loadModels, primaryUrlOf } from '../../main/models.ts';

export interface CheckedModel extends ModelReport {
  readonly model: string;
  readonly modes: readonly ExportMode[];
}

/**
 * The models as `sluice models list` shows them; `own_source`: whether it has its own database.
 *
 * @param findSource finds the address for models without their own database
 */
export async function listModels(config: Config, findSource: () => Promise<string>) {
  const declared = loadModels(config);
  const sourceUrl = config.MODELS_FILE === null ? null : await findSource().catch(() => null);
  const models =
    sourceUrl === null ? declared : await findOfferedModels(config, declared, sourceUrl);
  return models.map(({ model, sourceUrl }) => ({
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
    // Models of its own do not need the table of the built-in one, and exports cannot name it then.
    const isNotOffered =
      model === eventsModel &&
      config.MODELS_FILE !== null &&
      report.findings.some(isMissing) &&
      !(await isExported(model.name));
    if (!isNotOffered) checked.push({ model: model.name, modes: modesOf(model), ...report });
  }
  return checked;
}

function isMissing({ detail }: ModelReport['findings'][number]): boolean {
  const { schema, name } = eventsModel.relation;
  return detail.startsWith(`The relation ${schema}.${name} does not exist.`);
}
