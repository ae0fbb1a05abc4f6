package listener

import (
	"fmt"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestEnvoyAcceptsAllCases loads every listener of every case into Envoy, all at once.
func TestEnvoyAcceptsAllCases(t *testing.T) {
	var all crowd
	t.Run("cases", func(t *testing.T) {
		golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
			for _, s := range c.Sections() {
				c.Input(s)
			}
			all.add(t, listenersOf(t, NewGenerator(), caseView(t, c)))
		})
	})
	all.validate(t)
}

// crowd is the listeners of many proxies, to be loaded by one Envoy: each gets a name and addresses of its own.
type crowd struct{ listeners []*listenerv3.Listener }

// add takes the listeners of one proxy. That no two of them have one name or one address, which Envoy would refuse (or, of
// names, in validate mode would not notice), is checked here.
func (c *crowd) add(t testing.TB, listeners []*listenerv3.Listener) {
	t.Helper()
	names, addresses := map[string]bool{}, map[string]string{}
	for _, l := range listeners {
		if names[l.GetName()] {
			t.Errorf("two listeners are called %q", l.GetName())
		}
		names[l.GetName()] = true
		for _, a := range addressesOf(l) {
			if other, taken := addresses[a.String()]; taken && other != l.GetName() {
				t.Errorf("%q and %q have one address: %s", other, l.GetName(), a)
			}
			addresses[a.String()] = l.GetName()
		}
		c.listeners = append(c.listeners, c.apart(l))
	}
}

func addressesOf(l *listenerv3.Listener) []*corev3.Address {
	list := []*corev3.Address{l.GetAddress()}
	for _, a := range l.GetAdditionalAddresses() {
		list = append(list, a.GetAddress())
	}
	return list
}

func (c *crowd) apart(l *listenerv3.Listener) *listenerv3.Listener {
	n := uint32(len(c.listeners))
	l = proto.CloneOf(l)
	l.Name = fmt.Sprintf("%d %s", n, l.Name)
	if pipe := l.GetAddress().GetPipe(); pipe != nil {
		pipe.Path = fmt.Sprintf("/run/%0*d", len(pipe.Path)-len("/run/"), n)
	} else {
		protocol := l.GetAddress().GetSocketAddress().GetProtocol()
		l.Address = socketAddress(fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255), 80)
		l.Address.GetSocketAddress().Protocol = protocol
	}
	for i, a := range l.GetAdditionalAddresses() {
		protocol := a.GetAddress().GetSocketAddress().GetProtocol()
		a.Address = socketAddress(fmt.Sprintf("fd00::%x:%x", n, i), 80)
		a.Address.GetSocketAddress().Protocol = protocol
	}
	return l
}

func (c *crowd) validate(t *testing.T) {
	t.Helper()
	if len(c.listeners) < 100 {
		t.Errorf("only %d listeners: the test is not effective", len(c.listeners))
	}
	const atOnce = 4000 // Envoy compares the addresses of all with all
	for some := range slices.Chunk(c.listeners, atOnce) {
		envoy.Validate(t, envoy.Config{Listeners: some})
	}
}
