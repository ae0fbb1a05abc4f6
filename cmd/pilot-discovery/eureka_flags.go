package main

import (
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/eureka"
)

// addEurekaFlags adds the flags of the Eureka registry, which set s and default to its values.
func addEurekaFlags(fs *pflag.FlagSet, s *eureka.Settings) {
	fs.StringSliceVar(&s.URLs, "eurekaServiceURLs", s.URLs,
		"URLs of the Eureka servers' REST interfaces in the order of preference, http://host:8761/eureka, for --registries Eureka")
	fs.DurationVar(&s.Interval, "eurekaInterval", s.Interval,
		"time between two requests for changes of Eureka's instances")
	fs.StringVar(&s.Domain, "eurekaDomain", s.Domain, "last part of the hosts of Eureka's services")
	fs.StringVar(&s.Namespace, "eurekaNamespace", s.Namespace, "namespace of Eureka's services in the mesh")
	fs.StringVar(&s.Region, "eurekaRegion", s.Region, "region of instances in Eureka that declare only a zone")
	fs.StringVar(&s.AuthFile, "eurekaAuthFile", s.AuthFile,
		"file with user:password for HTTP basic authentication to Eureka; read again for each request")
	fs.StringVar(&s.CAFile, "eurekaCAFile", s.CAFile,
		"roots that Eureka's certificates are verified against (default: the system's)")
	fs.StringVar(&s.CertFile, "eurekaCertFile", s.CertFile,
		"client certificate for Eureka, in PEM; read again for each connection")
	fs.StringVar(&s.KeyFile, "eurekaKeyFile", s.KeyFile, "its private key")
	fs.StringVar(&s.ServerName, "eurekaServerName", s.ServerName,
		"name that Eureka's certificates must contain (default: the host of the server)")
}
