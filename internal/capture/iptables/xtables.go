package iptables

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// lockWait bounds the wait for the lock that iptables-legacy takes; iptables-nft has none.
const lockWait = "--wait=30"

// xtables is the backend of one variant of the iptables programs.
type xtables struct {
	variant  Variant
	legacy   bool // speaks to ip_tables, also if it is called just iptables
	four     programs
	six      programs // paths are empty if ip6tables is not installed, which is no fault where IPv6 is not captured
	hasRules bool     // some rule of any table is there, of whomever
	env      []string

	run Tools
	log *slog.Logger
}

// programs are the paths of one family's programs.
type programs struct{ save, restore string }

func (x *xtables) name() string { return toolName(IPv4, x.variant) }

// toolName is for example ip6tables-legacy.
func toolName(f Family, v Variant) string {
	if v == AnyVariant {
		return program(f)
	}
	return program(f) + "-" + string(v)
}

// programs returns the paths for a family, and whether there are any.
func (x *xtables) programs(f Family) (programs, bool) {
	p := x.four
	if f == IPv6 {
		p = x.six
	}
	return p, p.save != "" && p.restore != ""
}

// read returns what is ours in the tables of a family, in the order of tableNames. Without -t, iptables-save looks only at
// tables that are there and so loads no kernel module.
func (x *xtables) read(ctx context.Context, f Family, want Ruleset) ([]change, error) {
	text := ""
	if p, ok := x.programs(f); ok {
		var err error
		if text, err = x.run.Run(ctx, Call{Path: p.save, Env: x.env}); err != nil {
			return nil, err
		}
	}
	var tables []change
	for _, name := range tableNames() {
		wanted := listingOf(want.Table(f, name))
		tables = append(tables, change{family: f, table: name, have: parseSave(text, name, wanted), want: wanted})
	}
	return tables, nil
}

// write runs one transaction. An empty one is left out.
func (x *xtables) write(ctx context.Context, f Family, transaction string, flags ...string) error {
	if transaction == "" {
		return nil
	}
	p, ok := x.programs(f)
	if !ok {
		return fmt.Errorf("%s-restore is not installed, and %s is to be captured", toolName(f, x.variant), f)
	}
	args := append([]string{"--noflush"}, flags...)
	if x.legacy {
		args = append(args, lockWait)
	}
	x.log.Debug("running a transaction", "program", p.restore, "args", args, "input", transaction)
	_, err := x.run.Run(ctx, Call{Path: p.restore, Args: args, Env: x.env, Stdin: transaction})
	return err
}

func (x *xtables) present(ctx context.Context) (bool, error) {
	changes, err := x.changes(ctx, Ruleset{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(changes, func(c change) bool { return len(c.have) > 0 }), nil
}

func (x *xtables) check(ctx context.Context, want Ruleset) error {
	changes, err := x.changes(ctx, want)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if diff := difference(c.have, c.want); len(diff) > 0 {
			return fmt.Errorf("%s: table %s: %s: %w", toolName(c.family, x.variant), c.table, diff[0], ErrDrift)
		}
	}
	return nil
}

func (x *xtables) replace(ctx context.Context, want Ruleset, o Options) error {
	changes, err := x.changes(ctx, want)
	if err != nil {
		return err
	}
	var differ, residue bool
	for _, c := range changes {
		diff := difference(c.have, c.want)
		differ = differ || len(diff) > 0
		if len(diff) > 0 && len(c.have) > 0 {
			residue = true
			x.log.Info("rules of an earlier run differ", "program", toolName(c.family, x.variant), "table", c.table, "difference", diff)
		}
	}
	switch {
	case !differ && !o.ForceApply:
		x.log.Info("the rules are in place already", "backend", x.name())
		return nil
	case residue && !o.Reconcile && !o.ForceApply:
		return ErrDrift
	}
	if err := x.writeAll(ctx, changes); err != nil {
		return err
	}
	x.log.Info("applied the rules", "backend", x.name())
	return nil
}

func (x *xtables) remove(ctx context.Context, known Ruleset) error {
	changes, err := x.changes(ctx, known)
	if err != nil {
		return err
	}
	for i := range changes {
		changes[i].want = nil
	}
	slices.Reverse(changes)
	if err := x.writeAll(ctx, changes); err != nil {
		return err
	}
	x.log.Info("removed the rules", "backend", x.name())
	return nil
}

// change is what happens to one table of a family.
type change struct {
	family     Family
	table      string
	have, want listing
}

// changes reads both families: one that is not wanted may have rules of an earlier run. They are in the order in which new
// rules come into force.
func (x *xtables) changes(ctx context.Context, want Ruleset) ([]change, error) {
	var all []change
	for _, f := range []Family{IPv4, IPv6} {
		tables, err := x.read(ctx, f, want)
		if err != nil {
			return nil, err
		}
		all = append(all, tables...)
	}
	return all, nil
}

// writeAll makes the changes. Each table has a transaction of its own, so if one fails those before it are undone.
func (x *xtables) writeAll(ctx context.Context, changes []change) error {
	for i, c := range changes {
		err := x.write(ctx, c.family, transition(c.table, c.have, c.want))
		if err == nil {
			continue
		}
		for _, done := range changes[:i] {
			// Also when ctx has ended: half of the rules are worse than a late return.
			if undo := x.write(context.WithoutCancel(ctx), done.family, transition(done.table, done.want, done.have)); undo != nil {
				err = fmt.Errorf("%w; and undoing the change of table %s of %s: %w", err, done.table, done.family, undo)
			}
		}
		return err
	}
	return nil
}

// works tries empty transactions without committing them, to see that the kernel has what the programs need.
func (x *xtables) works(ctx context.Context, want Ruleset) error {
	for _, f := range []Family{IPv4, IPv6} {
		var text strings.Builder
		for _, t := range want.Tables {
			if t.Family == f {
				fmt.Fprintf(&text, "*%s\nCOMMIT\n", t.Name)
			}
		}
		if err := x.write(ctx, f, text.String(), "--test"); err != nil {
			return err
		}
	}
	return nil
}

// hasRule reports whether the output of iptables-save has a rule.
func hasRule(save string) bool {
	return strings.HasPrefix(save, "-A ") || strings.Contains(save, "\n-A ")
}
