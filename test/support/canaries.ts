/** Part of every row of a team's events; must be seen in that team's files only. */
export const canaryOf = (team: number): string => `canary-of-team-${team}.`;

/** Finds canaries; the first group is the team. */
export const canaryPattern = /canary-of-team-(\d+)\./g;
