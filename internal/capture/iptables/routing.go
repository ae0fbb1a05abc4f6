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
	// Add adds rule and route. It reports whether one of them was not there before.
	Add(Divert) (bool, error)
	// Remove removes rule and route. It does nothing if they are not there.
	Remove(Divert) error
}

// addDiverts adds the routing that TPROXY needs. It returns a function that undoes the change,
// except for routing that existed before, and only logs failures. If addDiverts fails, nothing is
// changed.
func addDiverts(diverts []Divert, env Environment) (undo func(), err error) {
	var added []Divert
	undo = func() {
		for _, d := range added {
			if err := env.Routing.Remove(d); err != nil {
				env.Log.Warn("cannot undo a change, continuing",
					"routing table", d.Table, "family", d.Family.String(), "error", err)
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
			return nil, fmt.Errorf("route marked packets of %s by table %d: %w", d.Family, d.Table, err)
		}
	}
	return undo, nil
}

// removeDiverts removes the routing that a run with the same mark and table has added, except for
// the families in wanted. It does nothing if wanted has both families. It stops at the first error.
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
			return fmt.Errorf("remove the routing of marked packets of %s: %w", f, err)
		}
	}
	return nil
}

// systemRouting uses rtnetlink.
type systemRouting struct{}

var _ Routing = systemRouting{}

// Add adds the route and the routing rule of d, unless they exist. It reports whether it added one
// of them, also with an error.
func (systemRouting) Add(d Divert) (bool, error) {
	route, err := d.route()
	if err != nil {
		return false, err
	}
	routeNew, err := wasAdded(netlink.RouteAdd(route))
	if err != nil {
		return false, fmt.Errorf("add route: %w", wrapPermission(err))
	}
	// The kernel would accept a duplicate rule.
	switch rules, err := d.rules(); {
	case err != nil:
		return routeNew, err
	case len(rules) > 0:
		return routeNew, nil
	}
	if err := netlink.RuleAdd(d.rule()); err != nil {
		return routeNew, fmt.Errorf("add routing rule: %w", wrapPermission(err))
	}
	return true, nil
}

// Remove removes all routing rules with the mark and table of d, and the route in that table.
// Missing ones are no error. It stops at the first error.
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
		if err := ignoreMissing(netlink.RuleDel(d.rule())); err != nil {
			return fmt.Errorf("remove routing rule: %w", wrapPermission(err))
		}
	}
	if err := ignoreMissing(netlink.RouteDel(route)); err != nil {
		return fmt.Errorf("remove route: %w", wrapPermission(err))
	}
	return nil
}

// rules returns the existing routing rules for the mark and table, of any priority. It returns none
// if the kernel lacks the family.
func (d Divert) rules() ([]netlink.Rule, error) {
	rules, err := netlink.RuleListFiltered(d.netlinkFamily(), d.rule(), netlink.RT_FILTER_TABLE|netlink.RT_FILTER_MARK)
	if err = ignoreMissing(err); err != nil {
		return nil, fmt.Errorf("list routing rules: %w", wrapPermission(err))
	}
	return rules, nil
}

// wasAdded reports whether an operation added something. EEXIST means that it existed, and is not
// an error.
func wasAdded(err error) (bool, error) {
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	return err == nil, err
}

// ignoreMissing returns nil for errors that mean that the object, or IPv6, does not exist.
func ignoreMissing(err error) error {
	for _, missing := range []error{unix.ENOENT, unix.ESRCH, unix.EAFNOSUPPORT, unix.EOPNOTSUPP} {
		if errors.Is(err, missing) {
			return nil
		}
	}
	return err
}

// netlinkFamily returns the number of the address family in netlink messages.
func (d Divert) netlinkFamily() int {
	if d.Family == IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// rule returns the routing rule that selects the table for packets with the mark.
func (d Divert) rule() *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Mark, r.Table = d.netlinkFamily(), d.Mark, int(d.Table)
	return r
}

// route returns the route, in the table of d, that delivers all packets of its family locally. It
// returns an error if lo cannot be found.
func (d Divert) route() (*netlink.Route, error) {
	lo, err := netlink.LinkByName(loopbackInterface)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", loopbackInterface, err)
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
