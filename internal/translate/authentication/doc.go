// Package authentication checks the tokens of requests (RequestAuthentication).
//
// In: the rules that hold for a proxy, and the keys of the issuers that they name. Out: the Envoy filters that check what tokens a
// request has, before anybody decides by them.
// Law: pure, and it fails closed: a token that cannot be checked is refused, whatever the reason, and no rule without keys makes up
// any. A request without a token passes: that one is needed is for an AuthorizationPolicy to say.
//
// What is in a checked token is left where package token says. Headers that tokens' claims are put into are taken off requests by Envoy
// before, whoever sent them: test/integration/jwt holds it to that.
//
// Start with [Table.For] in table.go; rule.go finds what there is to check, filter.go says it to Envoy.
package authentication
