package options

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/cloudfoundry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/eureka"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/mock"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/nacos"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/nomad"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/platform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/zookeeper"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Platforms are the settings of the platforms that run as an adapter.Platform, by platform.
type Platforms struct {
	CloudFoundry cloudfoundry.Settings
	Eureka       eureka.Settings
	Mock         mock.Settings
	Nacos        nacos.Settings
	Nomad        nomad.Settings
	ZooKeeper    zookeeper.Settings
}

// DefaultPlatforms returns the settings without flags.
func DefaultPlatforms() Platforms {
	return Platforms{
		CloudFoundry: cloudfoundry.DefaultSettings(), Eureka: eureka.DefaultSettings(), Nacos: nacos.DefaultSettings(),
		Nomad: nomad.DefaultSettings(), ZooKeeper: zookeeper.DefaultSettings(),
	}
}

// platformRegistry is a value of --registries that selects an adapter.Platform.
type platformRegistry struct {
	// name is the value, and the provider of the platform's services.
	name string
	// address is shown in logs and debug pages.
	address string
	// validate returns an error that names each invalid flag. It opens no connection.
	validate func() error
	// open returns the platform. It opens no connection.
	open func(*slog.Logger) (adapter.Platform, error)
	// holdTime is platform.Options.HoldTime.
	holdTime time.Duration
}

// platformRegistries returns all platforms that --registries can select beside Kubernetes and
// Consul, with the settings in o: CloudFoundry, ZooKeeper, Eureka, Nomad, Nacos and Mock. None is
// opened.
func (o Options) platformRegistries() []platformRegistry {
	p := o.Platforms
	return []platformRegistry{
		{
			name: cloudfoundry.Name, address: strings.Join(p.CloudFoundry.Servers, ","), validate: p.CloudFoundry.Validate,
			open: func(l *slog.Logger) (adapter.Platform, error) {
				return cloudfoundry.New(cloudfoundry.Options{Settings: p.CloudFoundry, Logger: l})
			},
		},
		{
			name: zookeeper.Name, address: strings.Join(p.ZooKeeper.Servers, ","), validate: p.ZooKeeper.Validate,
			open: func(l *slog.Logger) (adapter.Platform, error) { return zookeeper.New(p.ZooKeeper, l) },
		},
		{
			name: eureka.Name, address: strings.Join(p.Eureka.URLs, ","), validate: p.Eureka.Validate,
			open: func(l *slog.Logger) (adapter.Platform, error) { return eureka.New(p.Eureka, l, clock.System{}) },
		},
		{
			name: nomad.Name, address: strings.Join(p.Nomad.Addresses, ","), validate: p.Nomad.Validate,
			open: func(l *slog.Logger) (adapter.Platform, error) { return nomad.New(p.Nomad, l, clock.System{}) },
		},
		{
			name: nacos.Name, address: strings.Join(p.Nacos.Servers, ","), validate: p.Nacos.Validate,
			holdTime: p.Nacos.HoldTime,
			open:     func(l *slog.Logger) (adapter.Platform, error) { return nacos.New(p.Nacos, l, clock.System{}) },
		},
		{
			name: "Mock", address: p.Mock.Dir, validate: p.Mock.Validate,
			open: func(l *slog.Logger) (adapter.Platform, error) { return mock.New(p.Mock, l), nil },
		},
	}
}

// validatePlatform returns an error if a value of --registries is unknown, or the settings of the
// platform that it selects are invalid.
func (o Options) validatePlatform(name string) error {
	for _, p := range o.platformRegistries() {
		if p.name == name {
			return p.validate()
		}
	}
	return fmt.Errorf("--registries %q: want one of %s", name, strings.Join(o.RegistryNames(), ", "))
}

// RegistryNames returns the values that --registries accepts.
func (o Options) RegistryNames() []string {
	names := []string{"Kubernetes", registryConsul}
	for _, p := range o.platformRegistries() {
		names = append(names, p.name)
	}
	return names
}

// AppendRegistryFeeds returns list with the sources of the registries beside Kubernetes that
// Registries selects. It returns nil and an error if one cannot be opened. Consul's come first.
func (o Options) AppendRegistryFeeds(
	list []ingest.Feed,
	logs *obs.Logs,
	m *obs.Metrics,
	r *recovery.Recorder,
) ([]ingest.Feed, error) {
	if slices.Contains(o.Registries, registryConsul) {
		var err error
		if list, err = o.appendConsulFeeds(list, logs, m); err != nil {
			return nil, err
		}
	}
	for _, p := range o.platformRegistries() {
		if !slices.Contains(o.Registries, p.name) {
			continue
		}
		log := logs.Scope("platform")
		opened, err := p.open(log)
		if err != nil {
			return nil, fmt.Errorf("--registries %s: %w", p.name, err)
		}
		list = append(list, platform.New(opened, platform.Options{
			Platform: p.name, Address: p.address, Logger: log, Metrics: &m.Platform, Recovery: r,
			HoldTime: p.holdTime,
		}))
	}
	return list, nil
}
