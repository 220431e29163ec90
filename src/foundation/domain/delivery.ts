/**
 * What became of a deadline. `pending`: it is in the future, and nothing says that it will be missed. `at_risk`: it will
 * probably be missed.
 */
export const deliveryOutcomes = ['met', 'missed', 'at_risk', 'pending'] as const;
export type DeliveryOutcome = (typeof deliveryOutcomes)[number];
