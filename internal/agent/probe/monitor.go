package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// Monitor probes a workload periodically, as configured by WorkloadGroup.probe, and reports each
// change of its health.
type Monitor struct {
	Prober *Prober
	Probe  Probe
	// Delay is the time before the first probe, Period that between probes.
	Delay, Period time.Duration
	// Successes and Failures are how many consecutive results make the workload healthy or
	// unhealthy.
	Successes, Failures int
	// CheckProxy is called before each probe, which fails if it returns an error: a workload whose
	// proxy is not ready is unreachable. If nil, the proxy counts as ready.
	CheckProxy func(context.Context) error
	// OnChange is called when the health is first determined and when it changes. problem is "" for
	// healthy.
	OnChange func(problem string)
	Log      *slog.Logger
}

// Defaults of WorkloadGroup.probe, equal to Kubernetes' defaults.
const (
	defaultTimeout = time.Second
	defaultPeriod  = 10 * time.Second
)

// ParseReadinessProbe returns a Monitor for the readiness probe in ProxyConfig, which is a
// WorkloadGroup's. It fails without a method, or with an invalid port or an empty command. The
// caller sets Prober, CheckProxy, OnChange and Log. Times that are not positive have defaults (no
// delay), and thresholds are at least 1.
func ParseReadinessProbe(in *networking.ReadinessProbe) (Monitor, error) {
	m := Monitor{
		Probe: Probe{Timeout: secondsOr(in.GetTimeoutSeconds(), defaultTimeout)},
		Delay: secondsOr(in.GetInitialDelaySeconds(), 0), Period: secondsOr(in.GetPeriodSeconds(), defaultPeriod),
		Successes: int(max(in.GetSuccessThreshold(), 1)), Failures: int(max(in.GetFailureThreshold(), 1)),
	}
	var number uint32
	switch method := in.GetHealthCheckMethod().(type) {
	case *networking.ReadinessProbe_HttpGet:
		h := method.HttpGet
		m.Probe.HTTP = &HTTP{
			Host: h.GetHost(), Port: uint16(h.GetPort()), Path: h.GetPath(),
			Secure: strings.EqualFold(h.GetScheme(), "https"), Headers: http.Header{},
		}
		for _, header := range h.GetHttpHeaders() {
			m.Probe.HTTP.Headers.Add(header.GetName(), header.GetValue())
		}
		number = h.GetPort()
	case *networking.ReadinessProbe_TcpSocket:
		m.Probe.TCP = &TCP{Host: method.TcpSocket.GetHost(), Port: uint16(method.TcpSocket.GetPort())}
		number = method.TcpSocket.GetPort()
	case *networking.ReadinessProbe_Grpc:
		m.Probe.GRPC = &GRPC{Port: uint16(method.Grpc.GetPort()), Service: method.Grpc.GetService()}
		number = method.Grpc.GetPort()
	case *networking.ReadinessProbe_Exec:
		m.Probe.Exec = method.Exec.GetCommand()
		if len(m.Probe.Exec) == 0 {
			return Monitor{}, errors.New("exec.command: must not be empty")
		}
		return m, nil
	default:
		return Monitor{}, errors.New("want one of httpGet, tcpSocket, exec and grpc")
	}
	if number < 1 || number > math.MaxUint16 {
		return Monitor{}, fmt.Errorf("port: %d is not a port", number)
	}
	return m, nil
}

// Run probes until ctx ends, the first time after m.Delay, then m.Period after the end of each
// probe. It logs and calls OnChange when the state is first known or changes, after m.Successes or
// m.Failures equal results in succession. OnChange gets "" for healthy, otherwise the reason. Run
// always returns nil.
func (m Monitor) Run(ctx context.Context) error {
	timer := time.NewTimer(m.Delay)
	defer timer.Stop()
	successes, failures := 0, 0
	const unknown, healthy, unhealthy = 0, 1, 2
	state := unknown
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := m.checkOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			successes, failures = successes+1, 0
		} else {
			successes, failures = 0, failures+1
		}
		switch {
		case err == nil && successes >= m.Successes && state != healthy:
			state = healthy
			m.Log.Info("readiness probe succeeded, reporting workload as healthy")
			m.OnChange("")
		case err != nil && failures >= m.Failures && state != unhealthy:
			state = unhealthy
			m.Log.Warn("readiness probe failed, reporting workload as unhealthy", "error", err)
			m.OnChange(err.Error())
		}
		timer.Reset(m.Period)
	}
}

// checkOnce returns nil if the proxy is ready and the application healthy, and otherwise the
// reason. The application is not probed while the proxy is not ready. Without m.CheckProxy the
// proxy counts as ready.
func (m Monitor) checkOnce(ctx context.Context) error {
	if m.CheckProxy != nil {
		if err := m.CheckProxy(ctx); err != nil {
			return fmt.Errorf("the proxy is not ready: %w", err)
		}
	}
	return m.Prober.Check(ctx, m.Probe)
}
