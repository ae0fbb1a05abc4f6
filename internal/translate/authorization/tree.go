package authorization

import (
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
)

// tree combines conditions, in the same way for permissions and for principals.
type tree[T any] struct {
	all, any func(list []T) T
	not      func(T) T
	// everything always matches.
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

// and combines conditions that must all match. An empty list matches everything.
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

// or combines alternatives: at least one must match. The list must not be empty.
func (t tree[T]) or(list []T) T {
	if len(list) == 1 {
		return list[0]
	}
	return t.any(list)
}

// nothing returns a condition that never matches. It is used for invalid values.
func (t tree[T]) nothing() T { return t.not(t.everything) }
