package zookeeper

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// Settings are the user's settings of a Platform.
type Settings struct {
	// Servers are the addresses of the servers, "host:port" (--zookeeperServers).
	Servers []string
	// SessionTimeout is the session timeout that the client asks for (default 10s;
	// --zookeeperSessionTimeout). A client without a server for that long begins a new session.
	SessionTimeout time.Duration
	// DubboRoot contains Dubbo's interfaces (default "/dubbo"; --zookeeperDubboRoot). ServicesRoot
	// contains the applications of Dubbo and Spring Cloud (default "/services";
	// --zookeeperServicesRoot). If empty, that layout is not read.
	DubboRoot, ServicesRoot string
	// Domain is the last part of all hosts (default "zookeeper"; --zookeeperDomain).
	Domain string
	// Namespace is the namespace of the services in the mesh (default "default";
	// --zookeeperNamespace).
	Namespace string
	// AuthFile contains "user:password" for ZooKeeper's digest authentication. It is read again for
	// each session (--zookeeperAuthFile).
	AuthFile string
	// TLS encrypts the connections (--zookeeperTLS).
	TLS bool
	// Files are the settings of TLS (--zookeeperCAFile, --zookeeperCertFile, --zookeeperKeyFile,
	// --zookeeperServerName).
	clienttls.Files
}

// flagPrefix is the prefix of the names of the flags.
const flagPrefix = "zookeeper"

// DefaultSettings returns the settings that apply without flags.
func DefaultSettings() Settings {
	return Settings{
		SessionTimeout: 10 * time.Second, DubboRoot: "/dubbo", ServicesRoot: "/services", Domain: "zookeeper",
		Namespace: "default",
	}
}

// minSessionTimeout is the shortest session timeout. The library sends a ping three times in it.
const minSessionTimeout = time.Second

// Validate returns an error that names each invalid flag, or nil, and opens no connection. At least
// one server, as host:port, and one root are required, and no root may contain the other. Roots are
// absolute paths without a slash at the end. The session timeout must be at least
// minSessionTimeout, and TLS files need TLS.
func (s *Settings) Validate() error {
	var errs []error
	if len(s.Servers) == 0 {
		errs = append(errs, errors.New("--zookeeperServers: must name a server"))
	}
	for _, address := range s.Servers {
		if h, port, err := net.SplitHostPort(address); err != nil || h == "" || port == "" {
			errs = append(errs, fmt.Errorf("--zookeeperServers %q: want host:port", address))
		}
	}
	if s.SessionTimeout < minSessionTimeout {
		errs = append(errs, fmt.Errorf("--zookeeperSessionTimeout %v: must be at least %v", s.SessionTimeout,
			minSessionTimeout))
	}
	for _, x := range [...]struct{ flag, root string }{
		{"--zookeeperDubboRoot", s.DubboRoot}, {"--zookeeperServicesRoot", s.ServicesRoot},
	} {
		if x.root != "" && !isNodePath(x.root) {
			errs = append(errs, fmt.Errorf("%s %q: want a path such as /name without a slash at its end", x.flag, x.root))
		}
	}
	a, b := s.DubboRoot+"/", s.ServicesRoot+"/"
	switch {
	case a == "/" && b == "/":
		errs = append(errs, errors.New("--zookeeperDubboRoot, --zookeeperServicesRoot: one must not be empty"))
	case a != "/" && b != "/" && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)):
		errs = append(errs, errors.New("--zookeeperDubboRoot, --zookeeperServicesRoot: one must not contain the other"))
	}
	return errors.Join(append(errs, s.ValidateWithFlag(flagPrefix, s.TLS))...)
}

// isNodePath reports whether text is a path of ZooKeeper other than "/": it begins with a slash,
// and no element is empty, "." or "..". Characters are not checked.
func isNodePath(text string) bool {
	for i, element := range strings.Split(text, "/") {
		if (i == 0) != (element == "") || element == "." || element == ".." {
			return false
		}
	}
	return len(text) > 1
}
