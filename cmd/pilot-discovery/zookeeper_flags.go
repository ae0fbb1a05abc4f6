package main

import (
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/zookeeper"
)

// addZooKeeperFlags adds the flags of the ZooKeeper registry, which set s and default to its
// values.
func addZooKeeperFlags(fs *pflag.FlagSet, s *zookeeper.Settings) {
	fs.StringSliceVar(&s.Servers, "zookeeperServers", s.Servers,
		"addresses of the ZooKeeper servers, host:port, for --registries ZooKeeper")
	fs.DurationVar(&s.SessionTimeout, "zookeeperSessionTimeout", s.SessionTimeout,
		"session timeout that is requested of ZooKeeper; a client without a server for that long begins a new session")
	fs.StringVar(&s.DubboRoot, "zookeeperDubboRoot", s.DubboRoot,
		"node with Dubbo's interfaces; empty: they are not read")
	fs.StringVar(&s.ServicesRoot, "zookeeperServicesRoot", s.ServicesRoot,
		"node with the applications of Dubbo and Spring Cloud; empty: they are not read")
	fs.StringVar(&s.Domain, "zookeeperDomain", s.Domain, "last part of the hosts of ZooKeeper's services")
	fs.StringVar(&s.Namespace, "zookeeperNamespace", s.Namespace, "namespace of ZooKeeper's services in the mesh")
	fs.StringVar(&s.AuthFile, "zookeeperAuthFile", s.AuthFile,
		"file with user:password for ZooKeeper's digest authentication; read again for each session")
	fs.BoolVar(&s.TLS, "zookeeperTLS", s.TLS, "connect to ZooKeeper with TLS")
	fs.StringVar(&s.CAFile, "zookeeperCAFile", s.CAFile,
		"roots that ZooKeeper's certificates are verified against (default: the system's)")
	fs.StringVar(&s.CertFile, "zookeeperCertFile", s.CertFile,
		"client certificate for ZooKeeper, in PEM; read again for each connection")
	fs.StringVar(&s.KeyFile, "zookeeperKeyFile", s.KeyFile, "its private key")
	fs.StringVar(&s.ServerName, "zookeeperServerName", s.ServerName,
		"name that ZooKeeper's certificates must contain (default: the host of the server)")
}
