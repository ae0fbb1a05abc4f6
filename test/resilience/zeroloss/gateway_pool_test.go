package zeroloss

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
	"github.com/meshpilot/meshpilot/test/support/endpointpicker"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// poolHost is the host whose requests an InferencePool answers.
const poolHost = "model.echo.mesh"

// probes is the number of replies in each lane of the pool that must be of one version: a gateway that does not
// ask the picker chooses either version.
const probes = 4

// poolState describes an InferencePool. Its pods are the servers of both versions.
type poolState struct {
	Release     string // of the selected pods; "": all
	Second      bool   // v2 has a pod
	Picker      string // first or second
	PickerPod   bool   // the second picker has a pod
	FailureMode string
	Pickers     struct{ First, Second int } // ports
}

func firstPool() poolState {
	return poolState{Picker: "first", PickerPod: true, FailureMode: "FailClose"}
}

// poolEvents are changes of the pool, of its pods and of its picker. Requests choose no endpoint, so the
// first picker chooses v2 and the second one v1, whether they are in the pool or not.
func poolEvents() []gatewayEvent {
	event := func(name, version string, f func(*poolState), more ...func(*gatewayStage) error) gatewayEvent {
		return gatewayEvent{name: name, do: func(s *gatewayStage) { f(&s.state.Pool) }, seen: func(s *gatewayStage) error {
			for _, check := range more {
				if err := check(s); err != nil {
					return err
				}
			}
			return s.answeredBy(slices.Repeat(s.poolLanes(), probes), version)
		}}
	}
	return []gatewayEvent{
		event("add an endpoint of a pool", "v2", func(p *poolState) { p.Second = true }),
		event("edit a pool", "v1", func(p *poolState) { p.Release = "stable" }),
		event("return to the first pool", "v2", func(p *poolState) { p.Release = "" }),
		event("replace the picker", "v1", func(p *poolState) { p.Picker = "second" }),
		event("FailClose to FailOpen", "v1", func(p *poolState) { p.FailureMode = "FailOpen" }),
		// No picker chooses now: both versions answer.
		event("remove the picker's endpoint", "", func(p *poolState) { p.PickerPod = false }, pickerHasEndpoint(false)),
		event("return the picker's endpoint", "v1", func(p *poolState) { p.PickerPod = true }, pickerHasEndpoint(true)),
		event("FailOpen to FailClose", "v1", func(p *poolState) { p.FailureMode = "FailClose" }),
		event("return to the first picker", "v2", func(p *poolState) { p.Picker = "first" }),
		event("remove an endpoint of a pool", "v1", func(p *poolState) { p.Second = false }),
	}
}

// pickerHasEndpoint returns an error unless the gateway has an endpoint of the second picker as wanted.
func pickerHasEndpoint(want bool) func(*gatewayStage) error {
	return func(s *gatewayStage) error {
		text, err := serving.Page("http://" + s.edge.Admin + "/clusters")
		if err != nil {
			return err
		}
		endpoint := "outbound|9002||second.istio-system.svc.cluster.local::127.0.0.1:" + strconv.Itoa(s.state.Pool.Pickers.Second)
		if strings.Contains(text, endpoint) != want {
			return fmt.Errorf("%s is an endpoint: want %t", endpoint, want)
		}
		return nil
	}
}

// startPickers starts both pickers of the pool.
func (s *gatewayStage) startPickers() {
	s.Helper()
	first, second := endpointpicker.Start(s.T, "127.0.0.1:0"), endpointpicker.Start(s.T, "127.0.0.1:0")
	first.SetEndpoint(net.JoinHostPort("127.0.0.2", strconv.Itoa(s.state.Servers.HTTP)))
	second.SetEndpoint(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.state.Servers.HTTP)))
	s.state.Pool.Pickers.First, s.state.Pool.Pickers.Second = first.Port, second.Port
}

// poolLanes are requests to the pool.
func (s *gatewayStage) poolLanes() []load.Lane {
	var list []load.Lane
	for _, kind := range []echo.Kind{echo.HTTP, echo.HTTPClose, echo.HTTP2} {
		list = append(list, s.lane("pool ", kind, poolHost, dialPlain(s.state.HTTP)))
	}
	return list
}
