package eureka

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// Settings are the user's settings of a Platform.
type Settings struct {
	// URLs are the addresses of the servers with the path of their REST interface, in the order in
	// which they are tried: "http://host:8761/eureka" (--eurekaServiceURLs).
	URLs []string
	// Interval is the time between two requests for changes (default 5s; --eurekaInterval).
	Interval time.Duration
	// Domain is the last part of all hosts (default "eureka"; --eurekaDomain).
	Domain string
	// Namespace is the namespace of the services in the mesh (default "default";
	// --eurekaNamespace).
	Namespace string
	// Region is the region of instances that declare only a zone (default "default";
	// --eurekaRegion).
	Region string
	// AuthFile contains "user:password" for HTTP basic authentication. It is read again for each
	// request (--eurekaAuthFile).
	AuthFile string
	// Files are the TLS settings (--eurekaCAFile, --eurekaCertFile, --eurekaKeyFile,
	// --eurekaServerName).
	clienttls.Files
}

// flagPrefix is the prefix of the names of the flags.
const flagPrefix = "eureka"

// DefaultSettings returns the settings that apply without flags.
func DefaultSettings() Settings {
	return Settings{Interval: 5 * time.Second, Domain: "eureka", Namespace: "default", Region: "default"}
}

// Validate returns an error that names each invalid flag, or nil. It opens no connection. At least
// one URL is required. URLs need a host and the scheme http or https; credentials and queries are
// refused, paths are not. The interval must be positive.
func (s *Settings) Validate() error {
	var errs []error
	if len(s.URLs) == 0 {
		errs = append(errs, errors.New("--eurekaServiceURLs: must name a server"))
	}
	for _, text := range s.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
			u.RawQuery != "" {
			errs = append(errs, fmt.Errorf("--eurekaServiceURLs %q: want http://host:port/path or https://host:port/path", text))
		}
	}
	if s.Interval <= 0 {
		errs = append(errs, fmt.Errorf("--eurekaInterval %v: must be positive", s.Interval))
	}
	return errors.Join(append(errs, s.Files.Validate(flagPrefix))...)
}
