import type { SourcedModel } from '../foundation/config/models-file.ts';
import { findTenant } from '../rows/sources/index.ts';
import type { FindTenants } from '../service/use-cases/tenants/judge-tenant-key.ts';

/** A source that takes longer has not answered. */
const patienceMs = 10_000;

/** @param sourceUrl for models without their own database */
export function findTenantsOf(models: readonly SourcedModel[], sourceUrl: string): FindTenants {
  return (tenantKey) =>
    Promise.all(
      models.map(({ model, sourceUrl: own }) =>
        findTenant(own ?? sourceUrl, model, tenantKey, AbortSignal.timeout(patienceMs)).catch(
          () => null,
        ),
      ),
    );
}
