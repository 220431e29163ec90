/**
 * The state of a deadline. `pending`: it is in the future. `at_risk`: it is in the future, and its
 * warning time has begun.
 */
export const deliveryOutcomes = ['met', 'missed', 'at_risk', 'pending'] as const;
export type DeliveryOutcome = (typeof deliveryOutcomes)[number];
