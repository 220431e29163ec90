/** What a request may see: one project, or all projects of an organization. */
export type Reach =
  | { readonly organizationId: string; readonly teamId: number }
  | { readonly organizationId: string; readonly teamId: null };

/** SQL that is true for the teams in reach, with its value as parameter `$number`. */
export function reaches(reach: Reach, column: string, number: number): string {
  return reach.teamId === null
    ? `${column} in (select id from projects where organization_id = $${number})`
    : `${column} = $${number}`;
}

export function reachValue(reach: Reach): string | number {
  return reach.teamId ?? reach.organizationId;
}
