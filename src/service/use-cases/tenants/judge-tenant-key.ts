import { Refusal } from '../../../foundation/domain/problem.ts';
import type { ModelTenant } from '../../../foundation/domain/tenant-key.ts';

/** Asks all models for a tenant key. Null: a model did not answer. */
export type FindTenants = (tenantKey: string) => Promise<readonly (ModelTenant | null)[]>;

/**
 * Judges the tenant key of a new project by what the models have for it.
 *
 * @param tenantKey null: the id of the project, a whole number
 * @returns warnings
 * @throws Refusal if no model can have it
 */
export async function judgeTenantKey(
  tenantKey: string | null,
  findTenants: FindTenants,
): Promise<readonly string[]> {
  const allAnswers = await findTenants(tenantKey ?? '1');
  const answers = allAnswers.filter((answer) => answer !== null);
  const possible = answers.filter(({ isPossible }) => isPossible);
  if (answers.length > 0 && answers.length === allAnswers.length && possible.length === 0) {
    const columns = answers.map(({ model, column, type }) => `${column} of ${model} is ${type}`);
    const what =
      tenantKey === null
        ? 'Without tenant_key, the id of the project is taken, a whole number. No model can have it'
        : 'No model can have this tenant_key';
    throw new Refusal({
      code: 'invalid_input',
      detail: `${what}: ${columns.join(', ')}. Enter the value that the column has for this project's rows.`,
      attr: 'tenant_key',
    });
  }
  const silent = allAnswers.length - answers.length;
  if (silent > 0) {
    return [
      `${silent} of ${allAnswers.length} models did not answer, so whether they have this tenant_key is not known. \`sluice models check\` says why.`,
    ];
  }
  // Before it exists, the id of a project is not known.
  if (tenantKey === null || possible.some(({ hasRows }) => hasRows !== false)) return [];
  const names = possible.map(({ model, column }) => `${column} of ${model}`).join(', ');
  return [
    `No row has this tenant_key yet (${names}). It cannot be changed: if it is wrong, delete the project and create another.`,
  ];
}
