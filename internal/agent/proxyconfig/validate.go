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

// Validate says what would keep an agent from working with the configuration, all of it at once.
func Validate(c *meshconfig.ProxyConfig) error {
	var errs []error
	check := func(field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("proxy configuration field %q: %w", field, err))
		}
	}
	check("configPath", notEmpty(c.GetConfigPath()))
	check("binaryPath", notEmpty(c.GetBinaryPath()))
	check("proxyAdminPort", port(c.GetProxyAdminPort()))
	check("statusPort", port(c.GetStatusPort()))
	for address := range strings.SplitSeq(c.GetDiscoveryAddress(), ",") { // several are ours
		check("discoveryAddress", HostPort(strings.TrimSpace(address)))
	}
	check("drainDuration", atLeast(c.GetDrainDuration(), time.Second))
	check("terminationDrainDuration", atLeast(c.GetTerminationDrainDuration(), 0))
	check("fileFlushInterval", atLeast(c.GetFileFlushInterval(), time.Millisecond))
	if c.GetConcurrency().GetValue() < 0 {
		check("concurrency", fmt.Errorf("%d is negative", c.GetConcurrency().GetValue()))
	}
	if name, ok := c.GetClusterName().(*meshconfig.ProxyConfig_ServiceCluster); ok {
		check("serviceCluster", notEmpty(name.ServiceCluster))
	}
	for _, optional := range []struct{ field, address string }{
		{"statsdUdpAddress", c.GetStatsdUdpAddress()},
		{"envoyMetricsService.address", c.GetEnvoyMetricsService().GetAddress()},
		{"envoyAccessLogService.address", c.GetEnvoyAccessLogService().GetAddress()},
		{"tracing.zipkin.address", c.GetTracing().GetZipkin().GetAddress()},
		{"tracing.datadog.address", c.GetTracing().GetDatadog().GetAddress()},
	} {
		if optional.address != "" {
			check(optional.field, HostPort(optional.address))
		}
	}
	return errors.Join(errs...)
}

// HostPort says what is wrong with an address that must have the form host:port or [IPv6]:port.
func HostPort(address string) error {
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

func notEmpty(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	return nil
}

func port(number int32) error {
	if number < 1 || number > math.MaxUint16 {
		return fmt.Errorf("%d is not a port", number)
	}
	return nil
}

func atLeast(d *durationpb.Duration, least time.Duration) error {
	if err := d.CheckValid(); err != nil {
		return err
	}
	if d.AsDuration() < least {
		return fmt.Errorf("%v is less than %v", d.AsDuration(), least)
	}
	return nil
}
