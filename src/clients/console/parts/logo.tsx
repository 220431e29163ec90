/** A gate over water. */
export function Logo() {
  return (
    <svg className="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path className="logo-gate" d="M9 7v18M23 7v18M13 8h6v7h-6z" />
      <path
        className="logo-water"
        d="M12.500 20.500q1.750-1.800 3.500 0t3.500 0M12.500 24.500q1.750-1.800 3.500 0t3.500 0"
      />
    </svg>
  );
}
