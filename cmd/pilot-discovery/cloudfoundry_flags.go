package main

import (
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/cloudfoundry"
)

// addCloudFoundryFlags adds the flags of the routes of Cloud Foundry, which set s and default to
// its values.
func addCloudFoundryFlags(fs *pflag.FlagSet, s *cloudfoundry.Settings) {
	fs.StringSliceVar(&s.Servers, "cloudFoundryNATS", s.Servers,
		"NATS servers on which Cloud Foundry publishes routes, nats://host:port or tls://host:port, for --registries CloudFoundry")
	fs.StringVar(&s.CredentialsFile, "cloudFoundryCredentialsFile", s.CredentialsFile,
		"file with user:password, a token, or NATS account credentials; read again for each connection")
	fs.StringVar(&s.CAFile, "cloudFoundryCAFile", s.CAFile,
		"roots that the certificates of the NATS servers are verified against, which enables TLS (default: the system's)")
	fs.StringVar(&s.CertFile, "cloudFoundryCertFile", s.CertFile,
		"client certificate for NATS, in PEM; read again for each connection")
	fs.StringVar(&s.KeyFile, "cloudFoundryKeyFile", s.KeyFile, "its private key")
	fs.StringVar(&s.ServerName, "cloudFoundryServerName", s.ServerName,
		"name that the certificates of the NATS servers must contain (default: the host of the server)")
	fs.StringVar(&s.Namespace, "cloudFoundryNamespace", s.Namespace,
		"namespace of the services of Cloud Foundry's routes")
	fs.StringSliceVar(&s.Segments, "cloudFoundrySegments", s.Segments,
		"isolation segments whose routes are read; shared selects routes without one (default: all)")
	fs.StringVar(&s.Region, "cloudFoundryRegion", s.Region,
		"region of Cloud Foundry's instances; with it, their availability zones determine their localities")
	fs.BoolVar(&s.BackendTLS, "cloudFoundryBackendTLS", s.BackendTLS,
		"use the TLS ports of instances that have one; needs a DestinationRule with TLS for their routes")
	fs.DurationVar(&s.RegisterInterval, "cloudFoundryRegisterInterval", s.RegisterInterval,
		"how often emitters are asked to repeat routes; the first sync takes this long")
	fs.DurationVar(&s.StaleThreshold, "cloudFoundryStaleThreshold", s.StaleThreshold,
		"how long a route stays that is no longer repeated while most others are")
}
