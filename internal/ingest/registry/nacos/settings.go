package nacos

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// Settings are the user's settings of a Platform.
type Settings struct {
	// Servers are the addresses of the servers, "host:port", in the order in which they are tried.
	// The port is that of HTTP, 8848; gRPC is served at a port that is higher by 1000
	// (--nacosServers).
	Servers []string
	// NamespaceID is the ID of the namespace that is read (default "public"; --nacosNamespaceID).
	NamespaceID string
	// Groups are the groups that are read (default "DEFAULT_GROUP"; --nacosGroups).
	Groups []string
	// Interval is the time between two lists of services (default 5s; --nacosInterval). Changes of
	// known services do not wait for it.
	Interval time.Duration
	// HoldTime is the minimum time for which instances stay in use that a server does not list
	// after a reconnect (default 90s; --nacosHoldTime). If 0, they stay until they are registered
	// again.
	HoldTime time.Duration
	// Domain is the last part of all hosts (default "nacos"; --nacosDomain).
	Domain string
	// Namespace is the namespace of the services in the mesh (default "default"; --nacosNamespace).
	Namespace string
	// AuthFile contains "user:password". It is read again for each login (--nacosAuthFile).
	AuthFile string
	// TLS encrypts the connections and the login (--nacosTLS).
	TLS bool
	// Files are the settings of TLS (--nacosCAFile, --nacosCertFile, --nacosKeyFile,
	// --nacosServerName).
	clienttls.Files
}

// defaultGroup is the group of services without one.
const defaultGroup = "DEFAULT_GROUP"

// DefaultSettings returns the settings that apply without flags.
func DefaultSettings() Settings {
	return Settings{
		NamespaceID: "public", Groups: []string{defaultGroup}, Interval: 5 * time.Second,
		HoldTime: 90 * time.Second, Domain: "nacos", Namespace: "default",
	}
}

// flagPrefix is the prefix of the names of the flags.
const flagPrefix = "nacos"

// portOffset is the difference of the ports of gRPC and HTTP.
const portOffset = 1000

// Validate returns an error that names each invalid flag, or nil; it opens no connection and no
// file. Groups and servers are required, with valid addresses (grpcAddress). The interval must be
// positive; HoldTime may be 0 but not negative. TLS files and the server name need TLS, and a
// certificate and its key need each other.
func (s *Settings) Validate() error {
	var errs []error
	if len(s.Servers) == 0 {
		errs = append(errs, errors.New("--nacosServers: must name a server"))
	}
	for _, address := range s.Servers {
		if _, err := grpcAddress(address); err != nil {
			errs = append(errs, fmt.Errorf("--nacosServers %q: %w", address, err))
		}
	}
	if len(s.Groups) == 0 {
		errs = append(errs, errors.New("--nacosGroups: must name a group"))
	}
	if s.Interval <= 0 {
		errs = append(errs, fmt.Errorf("--nacosInterval %v: must be positive", s.Interval))
	}
	if s.HoldTime < 0 {
		errs = append(errs, fmt.Errorf("--nacosHoldTime %v: must not be negative", s.HoldTime))
	}
	return errors.Join(append(errs, s.ValidateWithFlag(flagPrefix, s.TLS))...)
}

// grpcAddress returns the address of gRPC of a server, whose port is that of HTTP plus portOffset.
// It returns an error if the address is not "host:port", or the port of gRPC would be above 65535.
func grpcAddress(address string) (string, error) {
	host, text, err := net.SplitHostPort(address)
	port, numeric := strconv.ParseUint(text, 10, 16)
	if err != nil || numeric != nil || host == "" || port == 0 || port+portOffset > 65535 {
		return "", errors.New("want host:port, with the port of HTTP (8848)")
	}
	return net.JoinHostPort(host, strconv.FormatUint(port+portOffset, 10)), nil
}
