package cloudfoundry

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Settings are the user's settings of a Platform.
type Settings struct {
	// Servers are the NATS servers, "nats://host:port" or, with TLS, "tls://host:port". The
	// registry uses one of them, and another one if it fails (--cloudFoundryNATS).
	Servers []string
	// CredentialsFile contains "user:password", a token, or the credentials of a NATS account (a
	// .creds file). It is read again for each connection (--cloudFoundryCredentialsFile).
	CredentialsFile string
	// Files are the TLS settings (--cloudFoundryCAFile, --cloudFoundryCertFile,
	// --cloudFoundryKeyFile, --cloudFoundryServerName). Each enables TLS.
	clienttls.Files
	// Namespace is the namespace of all services (default "default"; --cloudFoundryNamespace).
	Namespace string
	// Segments are the isolation segments whose routes are read. If empty, all are. "shared"
	// selects routes without a segment (--cloudFoundrySegments).
	Segments []string
	// Region is the region of all instances. With it, the availability zone of an instance becomes
	// the zone of its locality (--cloudFoundryRegion).
	Region string
	// BackendTLS sends requests to the ports with TLS of instances that have one, as Cloud
	// Foundry's router does with router.backends.enable_tls (default false;
	// --cloudFoundryBackendTLS).
	BackendTLS bool
	// RegisterInterval is how often emitters are asked to repeat registrations (default 20s;
	// --cloudFoundryRegisterInterval). The first sync takes that long.
	RegisterInterval time.Duration
	// StaleThreshold is the lifetime of a registration that is not repeated, and the maximum for
	// registrations that contain one (default 120s; --cloudFoundryStaleThreshold).
	StaleThreshold time.Duration
}

// flagPrefix is the prefix of the names of the flags.
const flagPrefix = "cloudFoundry"

// sharedSegment is the value in Settings.Segments that selects routes without an isolation segment.
const sharedSegment = "shared"

// DefaultSettings returns the settings that apply without flags. The times are the defaults of
// Cloud Foundry's router.
func DefaultSettings() Settings {
	return Settings{Namespace: adapter.DefaultNamespace, RegisterInterval: 20 * time.Second,
		StaleThreshold: 2 * time.Minute}
}

// Validate returns an error that names each invalid flag, or nil. It opens no connection and no
// file. At least one server is required. Times must be whole seconds, the interval at least one and
// the stale threshold at least two intervals. The namespace must be one DNS label in lower case,
// and the region must not contain a slash.
func (s Settings) Validate() error {
	var errs []error
	if len(s.Servers) == 0 {
		errs = append(errs, errors.New("--cloudFoundryNATS: is required"))
	}
	for _, server := range s.Servers {
		if err := validateServer(server); err != nil {
			errs = append(errs, fmt.Errorf("--cloudFoundryNATS: %w", err))
		}
	}
	if !config.IsHostname(s.Namespace) || strings.Contains(s.Namespace, ".") {
		errs = append(errs, fmt.Errorf("--cloudFoundryNamespace %q: want a DNS label in lower case", s.Namespace))
	}
	if err := s.Files.Validate(flagPrefix); err != nil {
		errs = append(errs, err)
	}
	if strings.Contains(s.Region, "/") {
		errs = append(errs, fmt.Errorf("--cloudFoundryRegion %q: must not contain a slash", s.Region))
	}
	if s.RegisterInterval < time.Second || s.RegisterInterval%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--cloudFoundryRegisterInterval %v: want whole seconds", s.RegisterInterval))
	}
	if s.StaleThreshold < 2*s.RegisterInterval || s.StaleThreshold%time.Second != 0 {
		errs = append(errs, fmt.Errorf(
			"--cloudFoundryStaleThreshold %v: want whole seconds, at least twice --cloudFoundryRegisterInterval",
			s.StaleThreshold))
	}
	return errors.Join(errs...)
}

// validateServer returns an error unless text is nats://HOST or tls://HOST, with or without a port.
// A path or query is refused, and so are credentials in the URL. The error does not contain
// credentials that the text may have.
func validateServer(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("a value is not a URL")
	}
	if u.User != nil {
		return fmt.Errorf("%s://%s: has credentials; they belong into --cloudFoundryCredentialsFile", u.Scheme, u.Host)
	}
	if u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || strings.Trim(u.Path+u.RawQuery, "/") != "" {
		return fmt.Errorf("%q: want nats://host:port or tls://host:port", text)
	}
	return nil
}
