package options

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/cloudfoundry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/eureka"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/mock"
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
	Nomad        nomad.Settings
	ZooKeeper    zookeeper.Settings
}

// DefaultPlatforms returns the settings without flags.
func DefaultPlatforms() Platforms {
	return Platforms{
		CloudFoundry: cloudfoundry.DefaultSettings(), Eureka: eureka.DefaultSettings(), Nomad: nomad.DefaultSettings(),
		ZooKeeper: zookeeper.DefaultSettings(),
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
}

// platformRegistries returns all platforms that --registries can select beside Kubernetes and
// Consul, with the settings in o. None is opened.
func (o Options) platformRegistries() []platformRegistry {
	p := o.Platforms
	return []platformRegistry{
		{cloudfoundry.Name, strings.Join(p.CloudFoundry.Servers, ","), p.CloudFoundry.Validate, func(l *slog.Logger) (adapter.Platform, error) {
			return cloudfoundry.New(cloudfoundry.Options{Settings: p.CloudFoundry, Logger: l})
		}},
		{zookeeper.Name, strings.Join(p.ZooKeeper.Servers, ","), p.ZooKeeper.Validate, func(l *slog.Logger) (adapter.Platform, error) {
			return zookeeper.New(p.ZooKeeper, l)
		}},
		{eureka.Name, strings.Join(p.Eureka.URLs, ","), p.Eureka.Validate, func(l *slog.Logger) (adapter.Platform, error) {
			return eureka.New(p.Eureka, l, clock.System{})
		}},
		{nomad.Name, strings.Join(p.Nomad.Addresses, ","), p.Nomad.Validate, func(l *slog.Logger) (adapter.Platform, error) {
			return nomad.New(p.Nomad, l, clock.System{})
		}},
		{"Mock", p.Mock.Dir, p.Mock.Validate, func(l *slog.Logger) (adapter.Platform, error) { return mock.New(p.Mock, l), nil }},
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
// Registries selects. It returns nil and an error if one cannot be opened.
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
		}))
	}
	return list, nil
}
