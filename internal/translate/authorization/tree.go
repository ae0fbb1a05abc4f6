package authorization

import (
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
)

// tree is how conditions are joined, the same for what is asked for and for who asks.
type tree[T any] struct {
	all, any func(list []T) T
	not      func(T) T
	// everything matches always.
	everything T
}

var permissions = tree[*rbacv3.Permission]{ //nolint:gochecknoglobals // a table
	all: func(list []*rbacv3.Permission) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: list}}}
	},
	any: func(list []*rbacv3.Permission) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: &rbacv3.Permission_Set{Rules: list}}}
	},
	not: func(p *rbacv3.Permission) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: p}}
	},
	everything: &rbacv3.Permission{Rule: &rbacv3.Permission_Any{Any: true}},
}

var principals = tree[*rbacv3.Principal]{ //nolint:gochecknoglobals // a table
	all: func(list []*rbacv3.Principal) *rbacv3.Principal {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: list}}}
	},
	any: func(list []*rbacv3.Principal) *rbacv3.Principal {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_OrIds{OrIds: &rbacv3.Principal_Set{Ids: list}}}
	},
	not: func(p *rbacv3.Principal) *rbacv3.Principal {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: p}}
	},
	everything: &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}},
}

// and joins conditions that must all hold; none is everything.
func (t tree[T]) and(list []T) T {
	switch len(list) {
	case 0:
		return t.everything
	case 1:
		return list[0]
	default:
		return t.all(list)
	}
}

// or joins conditions of which one must hold.
func (t tree[T]) or(list []T) T {
	if len(list) == 1 {
		return list[0]
	}
	return t.any(list)
}

// nothing matches never: what a value that makes no sense stands for.
func (t tree[T]) nothing() T { return t.not(t.everything) }
