package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// native is the backend that uses nf_tables over netlink and needs no programs. It has tables of
// its own, which it replaces as a whole in one transaction, so rules of an earlier run are never in
// conflict.
type native struct {
	open func() (Netlink, error)
	log  *slog.Logger
}

// name returns the backend's name for logs and errors.
func (n *native) name() string { return "nftables over netlink" }

// present reports whether a table of ours exists in any family. It returns an error if tables
// cannot be listed.
func (n *native) present(context.Context) (bool, error) {
	_, tables, err := n.openTables()
	return len(tables) > 0, err
}

// check returns an error that wraps ErrDrift if the number of our tables differs from want. It does
// not compare rules.
func (n *native) check(_ context.Context, want Ruleset) error {
	_, tables, err := n.openTables()
	if err != nil {
		return err
	}
	if len(tables) != len(want.Tables) {
		return fmt.Errorf("%s has %d tables of ours, want %d: %w", n.name(), len(tables), len(want.Tables), ErrDrift)
	}
	return nil
}

// replace deletes our tables and adds the tables of want in one transaction, whatever the options.
// It never returns ErrDrift.
func (n *native) replace(_ context.Context, want Ruleset, _ Options) error {
	conn, tables, err := n.openTables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		conn.DelTable(t)
	}
	for _, t := range want.Tables {
		addTable(conn, t)
	}
	if err := n.flush(conn); err != nil {
		return err
	}
	n.log.Info("rules applied", "backend", n.name())
	return nil
}

// remove deletes our tables in one transaction and logs that. Known rules are not needed, because
// no other table has rules of ours. If it fails, nothing is changed.
func (n *native) remove(_ context.Context, _ Ruleset) error {
	conn, tables, err := n.openTables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		conn.DelTable(t)
	}
	if err := n.flush(conn); err != nil {
		return err
	}
	n.log.Info("rules removed", "backend", n.name())
	return nil
}

// openTables returns a connection and our existing tables of all families, including Istio's of
// family inet. Its errors wrap ErrNotPermitted if permissions are missing.
func (n *native) openTables() (Netlink, []*nftables.Table, error) {
	conn, err := n.open()
	if err != nil {
		return nil, nil, fmt.Errorf("open netlink connection: %w", wrapPermission(err))
	}
	all, err := conn.ListTables()
	if err != nil {
		return nil, nil, fmt.Errorf("list nftables tables: %w", wrapPermission(err))
	}
	var own []*nftables.Table
	for _, t := range all {
		if slices.ContainsFunc(tableNames(), func(name string) bool { return t.Name == nftTable(name) }) {
			own = append(own, t)
		}
	}
	return conn, own, nil
}

// flush commits the transaction. The error wraps ErrNotPermitted if permissions are missing.
func (n *native) flush(conn Netlink) error {
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("commit nftables transaction: %w", wrapPermission(err))
	}
	return nil
}

// wrapPermission wraps EPERM in ErrNotPermitted and returns other errors unchanged.
func wrapPermission(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: %w", ErrNotPermitted, err)
	}
	return err
}

// addTable adds a table with its chains and rules to the transaction. Chains are first, because
// rules jump to them.
func addTable(conn Netlink, t Table) {
	family := nftables.TableFamilyIPv4
	if t.Family == IPv6 {
		family = nftables.TableFamilyIPv6
	}
	table := conn.AddTable(&nftables.Table{Name: nftTable(t.Name), Family: family})
	chains := make([]*nftables.Chain, len(t.Chains))
	for i, c := range t.Chains {
		chain := &nftables.Chain{Name: nftChain(c.Name), Table: table}
		if c.isBuiltin() {
			h, accept := newHook(t.Name, c.Name), nftables.ChainPolicyAccept
			chain.Type, chain.Priority, chain.Hooknum, chain.Policy = h.kind, &h.priority, &h.number, &accept
		}
		chains[i] = conn.AddChain(chain)
	}
	for i, c := range t.Chains {
		for _, r := range c.allRules() {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chains[i], Exprs: r.expressions(t.Family)})
		}
	}
}
