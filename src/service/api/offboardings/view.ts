import type { Offboarding, RemainingFiles } from '../../../state/store/tenants/offboardings.ts';

export function offboardingView(offboarding: Offboarding) {
  return {
    id: offboarding.id,
    organization_id: offboarding.organizationId,
    project_id: offboarding.teamId,
    name: offboarding.name,
    status: offboarding.status,
    requested_by: offboarding.requestedBy,
    requested_at: offboarding.requestedAt,
    completed_at: offboarding.completedAt,
    waits_for: offboarding.completedAt === null ? offboarding.lastError : null,
    deleted_rows: offboarding.deletedRows,
  };
}

export function remainingView(remaining: RemainingFiles) {
  return {
    destination_type: remaining.destinationType,
    address: remaining.address,
    place: remaining.place,
    exports: remaining.exports,
    files: remaining.files,
    manifests: remaining.manifests,
    rows: remaining.rows,
    bytes: remaining.bytes,
    leftover_files: remaining.leftoverFiles,
    open_uploads: remaining.openUploads,
  };
}
