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

// Monitor asks again and again, as WorkloadGroup.probe says, and tells of each change.
type Monitor struct {
	Prober *Prober
	Probe  Probe
	// Delay is before the first question, Period between questions.
	Delay, Period time.Duration
	// Successes and Failures in a row make the workload count as well, and as not.
	Successes, Failures int
	// Proxy is asked before the application: a workload whose proxy is not ready cannot be reached either. nil is ready.
	Proxy func(context.Context) error
	// Tell is told the state, "" for well, when it is first known and when it changes.
	Tell func(problem string)
	Log  *slog.Logger
}

// Defaults of WorkloadGroup.probe, which are those of Kubernetes.
const (
	defaultTimeout = time.Second
	defaultPeriod  = 10 * time.Second
)

// FromReadiness reads the readiness probe of ProxyConfig, which is a WorkloadGroup's.
func FromReadiness(in *networking.ReadinessProbe) (Monitor, error) {
	m := Monitor{
		Probe: Probe{Timeout: seconds(in.GetTimeoutSeconds(), defaultTimeout)},
		Delay: seconds(in.GetInitialDelaySeconds(), 0), Period: seconds(in.GetPeriodSeconds(), defaultPeriod),
		Successes: int(max(in.GetSuccessThreshold(), 1)), Failures: int(max(in.GetFailureThreshold(), 1)),
	}
	var number uint32
	switch method := in.GetHealthCheckMethod().(type) {
	case *networking.ReadinessProbe_HttpGet:
		h := method.HttpGet
		m.Probe.HTTP = &HTTP{Host: h.GetHost(), Port: uint16(h.GetPort()), Path: h.GetPath(), Secure: strings.EqualFold(h.GetScheme(), "https"), Headers: http.Header{}}
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

// Run asks until the context ends.
func (m Monitor) Run(ctx context.Context) error {
	timer := time.NewTimer(m.Delay)
	defer timer.Stop()
	successes, failures := 0, 0
	const unknown, well, unwell = 0, 1, 2
	state := unknown
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := m.ask(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			successes, failures = successes+1, 0
		} else {
			successes, failures = 0, failures+1
		}
		switch {
		case err == nil && successes >= m.Successes && state != well:
			state = well
			m.Log.Info("the workload is well by its readiness probe")
			m.Tell("")
		case err != nil && failures >= m.Failures && state != unwell:
			state = unwell
			m.Log.Warn("the workload is not well by its readiness probe", "why", err)
			m.Tell(err.Error())
		}
		timer.Reset(m.Period)
	}
}

func (m Monitor) ask(ctx context.Context) error {
	if m.Proxy != nil {
		if err := m.Proxy(ctx); err != nil {
			return fmt.Errorf("the proxy is not ready: %w", err)
		}
	}
	return m.Prober.Check(ctx, m.Probe)
}
