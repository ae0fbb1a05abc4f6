package autoregister

import "time"

// Settings configure the registration of workloads outside of Kubernetes.
type Settings struct {
	// Register creates WorkloadEntries (default true; PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION).
	// HealthChecks writes the health that agents report (default true;
	// PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS).
	Register, HealthChecks bool
	// Grace is how long an entry remains after its proxy has disconnected (default 10 s;
	// PILOT_WORKLOAD_ENTRY_GRACE_PERIOD).
	Grace time.Duration
	// AllowAnyIdentity also registers proxies that are not authenticated (default false; set by
	// ISTIO_WORKLOAD_ENTRY_VALIDATE_IDENTITY=false).
	AllowAnyIdentity bool
	// AllowPlaintext registers proxies that connect without TLS, if AllowAnyIdentity is set too
	// (default false; MESHPILOT_PLAINTEXT_REGISTRATION).
	AllowPlaintext bool
}

// defaultGrace is the default of Settings.Grace.
const defaultGrace = 10 * time.Second

// DefaultSettings returns Istio's defaults.
func DefaultSettings() Settings {
	return Settings{Register: true, HealthChecks: true, Grace: defaultGrace}
}
