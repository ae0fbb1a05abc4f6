package iptables

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LoopbackAddresses changes the addresses of lo in the network namespace of the calling thread.
type LoopbackAddresses interface {
	// Add reports whether the address was not there before.
	Add(netip.Prefix) (bool, error)
	// Remove does nothing if the address is not there.
	Remove(netip.Prefix) error
}

// addPassthroughSource lets Envoy bind to ::6. IPv4 needs no such thing: all of 127.0.0.0/8 is local by itself, but of IPv6 only ::1.
// It returns how to undo it.
func addPassthroughSource(env Environment) (undo func(), err error) {
	source := passthroughSource(IPv6)
	added, err := env.Loopback.Add(source)
	if err != nil {
		return nil, fmt.Errorf("adding %v to %s, for Envoy's inbound connections: %w", source, loopbackInterface, err)
	}
	return func() {
		if !added {
			return
		}
		if err := env.Loopback.Remove(source); err != nil {
			env.Log.Warn("cannot undo a change", "address", source.String(), "interface", loopbackInterface, "error", err)
		}
	}, nil
}

func removePassthroughSource(env Environment) error {
	source := passthroughSource(IPv6)
	if err := env.Loopback.Remove(source); err != nil {
		return fmt.Errorf("removing %v from %s: %w", source, loopbackInterface, err)
	}
	return nil
}

// systemLoopback speaks rtnetlink.
type systemLoopback struct{}

var _ LoopbackAddresses = systemLoopback{}

func (systemLoopback) Add(p netip.Prefix) (bool, error) {
	err := onLoopback(p, netlink.AddrAdd)
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	return err == nil, permission(err)
}

func (systemLoopback) Remove(p netip.Prefix) error {
	err := onLoopback(p, netlink.AddrDel)
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EOPNOTSUPP):
		return nil // not there, or there is no IPv6
	}
	return permission(err)
}

func onLoopback(p netip.Prefix, change func(netlink.Link, *netlink.Addr) error) error {
	link, err := netlink.LinkByName(loopbackInterface)
	if err != nil {
		return fmt.Errorf("finding %s: %w", loopbackInterface, err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		// Without this the address is tentative, and nobody can bind to it, until the kernel comes round to it.
		addr.Flags = unix.IFA_F_NODAD
	}
	return change(link, addr)
}
