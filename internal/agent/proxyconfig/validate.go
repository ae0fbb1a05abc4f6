package proxyconfig

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Validate returns all errors that would prevent the agent from running with the configuration,
// joined, or nil. configPath, binaryPath and a chosen serviceCluster must not be empty, but need
// not exist. It checks the ports, the durations, discoveryAddress and the addresses of optional
// services that are set, and that the concurrency is not negative. The address of statsd is not
// checked, because the agent runs without it.
func Validate(c *meshconfig.ProxyConfig) error {
	var errs []error
	check := func(field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("proxy configuration field %q: %w", field, err))
		}
	}
	check("configPath", requireNonEmpty(c.GetConfigPath()))
	check("binaryPath", requireNonEmpty(c.GetBinaryPath()))
	check("proxyAdminPort", validatePort(c.GetProxyAdminPort()))
	check("statusPort", validatePort(c.GetStatusPort()))
	for address := range strings.SplitSeq(c.GetDiscoveryAddress(), ",") { // a list is an extension of meshpilot
		check("discoveryAddress", ValidateHostPort(strings.TrimSpace(address)))
	}
	check("drainDuration", validateMinimum(c.GetDrainDuration(), time.Second))
	check("terminationDrainDuration", validateMinimum(c.GetTerminationDrainDuration(), 0))
	check("fileFlushInterval", validateMinimum(c.GetFileFlushInterval(), time.Millisecond))
	if c.GetConcurrency().GetValue() < 0 {
		check("concurrency", fmt.Errorf("%d is negative", c.GetConcurrency().GetValue()))
	}
	if name, ok := c.GetClusterName().(*meshconfig.ProxyConfig_ServiceCluster); ok {
		check("serviceCluster", requireNonEmpty(name.ServiceCluster))
	}
	for _, optional := range []struct{ field, address string }{
		{"envoyMetricsService.address", c.GetEnvoyMetricsService().GetAddress()},
		{"envoyAccessLogService.address", c.GetEnvoyAccessLogService().GetAddress()},
		{"tracing.zipkin.address", c.GetTracing().GetZipkin().GetAddress()},
		{"tracing.datadog.address", c.GetTracing().GetDatadog().GetAddress()},
	} {
		if optional.address != "" {
			check(optional.field, ValidateHostPort(optional.address))
		}
	}
	return errors.Join(errs...)
}

// ValidateHostPort returns an error unless address has the form host:port or [IPv6]:port, with a
// port from 1 to 65535. It accepts any host that is not empty.
func ValidateHostPort(address string) error {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port: %w", address, err)
	}
	if host == "" {
		return fmt.Errorf("%q has no host", address)
	}
	if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q: %q is not a port", address, number)
	}
	return nil
}

// requireNonEmpty returns an error if text is empty.
func requireNonEmpty(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	return nil
}

// validatePort returns an error unless number is from 1 to 65535.
func validatePort(number int32) error {
	if number < 1 || number > math.MaxUint16 {
		return fmt.Errorf("%d is not a port", number)
	}
	return nil
}

// validateMinimum returns an error if d is missing, invalid or less than least.
func validateMinimum(d *durationpb.Duration, least time.Duration) error {
	if err := d.CheckValid(); err != nil {
		return err
	}
	if d.AsDuration() < least {
		return fmt.Errorf("%v is less than %v", d.AsDuration(), least)
	}
	return nil
}
