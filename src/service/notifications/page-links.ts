/** @param publicUrl address of the page, as the operator set it */
export const pageAt = (publicUrl: string): string => `${publicUrl.replace(/\/+$/, '')}/console/`;

export function exportLink(publicUrl: string, projectId: number, exportId: string): string {
  return `${pageAt(publicUrl)}#/${projectId}/exports/${exportId}/runs`;
}

/** @param projectId null: of the project that was open last @param health those that have it; not given: all */
export function exportsLink(publicUrl: string, projectId: number | null, health?: string): string {
  if (projectId === null) return pageAt(publicUrl);
  const filter = health === undefined ? '' : `?health=${health}`;
  return `${pageAt(publicUrl)}#/${projectId}/${filter}`;
}
