package main

import (
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/discovery/options"
)

// addPlatformFlags adds the flags of the platforms beside Kubernetes and Consul, including the mock
// registry, which set p and default to its values.
func addPlatformFlags(fs *pflag.FlagSet, p *options.Platforms) {
	addCloudFoundryFlags(fs, &p.CloudFoundry)
	fs.StringVar(&p.Mock.Dir, "mockRegistryDir", p.Mock.Dir,
		"directory of YAML or JSON files with services, for --registries Mock; watched")
	addZooKeeperFlags(fs, &p.ZooKeeper)
	addEurekaFlags(fs, &p.Eureka)
	addNacosFlags(fs, &p.Nacos)
	addNomadFlags(fs, &p.Nomad)
}
