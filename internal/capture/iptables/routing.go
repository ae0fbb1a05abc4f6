package iptables

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Routing changes the policy routing in the network namespace of the calling thread.
type Routing interface {
	// Add reports whether any of it was not there before.
	Add(Divert) (bool, error)
	// Remove does nothing if it is not there.
	Remove(Divert) error
}

// addDiverts makes what TPROXY needs beside its rules. It returns how to undo it.
func addDiverts(diverts []Divert, env Environment) (undo func(), err error) {
	var added []Divert
	undo = func() {
		for _, d := range added {
			if err := env.Routing.Remove(d); err != nil {
				env.Log.Warn("cannot undo a change", "routing table", d.Table, "family", d.Family.String(), "error", err)
			}
		}
	}
	for _, d := range diverts {
		isNew, err := env.Routing.Add(d)
		if isNew {
			added = append(added, d)
		}
		if err != nil {
			undo()
			return nil, fmt.Errorf("routing marked packets of %s by table %d: %w", d.Family, d.Table, err)
		}
	}
	return undo, nil
}

// removeDiverts removes those that a run with the same mark and table has made, and are not to be.
func removeDiverts(o Options, wanted []Divert, env Environment) error {
	if len(wanted) == 2 {
		return nil
	}
	for _, f := range []Family{IPv4, IPv6} {
		d := Divert{Family: f, Mark: o.TProxyMark, Table: o.TProxyRouteTable}
		if len(wanted) > 0 && wanted[0] == d {
			continue
		}
		if err := env.Routing.Remove(d); err != nil {
			return fmt.Errorf("removing the routing of marked packets of %s: %w", f, err)
		}
	}
	return nil
}

// systemRouting speaks rtnetlink.
type systemRouting struct{}

var _ Routing = systemRouting{}

func (systemRouting) Add(d Divert) (bool, error) {
	route, err := d.route()
	if err != nil {
		return false, err
	}
	routeNew, err := isNew(netlink.RouteAdd(route))
	if err != nil {
		return false, fmt.Errorf("adding a route: %w", permission(err))
	}
	// The kernel takes the same rule twice.
	switch rules, err := d.rules(); {
	case err != nil:
		return routeNew, err
	case len(rules) > 0:
		return routeNew, nil
	}
	if err := netlink.RuleAdd(d.rule()); err != nil {
		return routeNew, fmt.Errorf("adding a routing rule: %w", permission(err))
	}
	return true, nil
}

func (systemRouting) Remove(d Divert) error {
	route, err := d.route()
	if err != nil {
		return err
	}
	rules, err := d.rules()
	if err != nil {
		return err
	}
	for range rules {
		if err := unlessGone(netlink.RuleDel(d.rule())); err != nil {
			return fmt.Errorf("removing a routing rule: %w", permission(err))
		}
	}
	if err := unlessGone(netlink.RouteDel(route)); err != nil {
		return fmt.Errorf("removing a route: %w", permission(err))
	}
	return nil
}

// rules lists the routing rules that are there for the mark and table, of whatever priority.
func (d Divert) rules() ([]netlink.Rule, error) {
	rules, err := netlink.RuleListFiltered(d.netlinkFamily(), d.rule(), netlink.RT_FILTER_TABLE|netlink.RT_FILTER_MARK)
	if err = unlessGone(err); err != nil {
		return nil, fmt.Errorf("listing the routing rules: %w", permission(err))
	}
	return rules, nil
}

func isNew(err error) (bool, error) {
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	return err == nil, err
}

// unlessGone takes it for success that something, or all of IPv6, is not there.
func unlessGone(err error) error {
	for _, gone := range []error{unix.ENOENT, unix.ESRCH, unix.EAFNOSUPPORT, unix.EOPNOTSUPP} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

func (d Divert) netlinkFamily() int {
	if d.Family == IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func (d Divert) rule() *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Mark, r.Table = d.netlinkFamily(), d.Mark, int(d.Table)
	return r
}

// route delivers everything locally.
func (d Divert) route() (*netlink.Route, error) {
	lo, err := netlink.LinkByName(loopbackInterface)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", loopbackInterface, err)
	}
	everything := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 8*net.IPv4len)}
	if d.Family == IPv6 {
		everything = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 8*net.IPv6len)}
	}
	return &netlink.Route{
		Family: d.netlinkFamily(), Dst: everything, LinkIndex: lo.Attrs().Index,
		Scope: netlink.SCOPE_HOST, Type: unix.RTN_LOCAL, Table: int(d.Table),
	}, nil
}
