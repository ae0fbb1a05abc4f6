// Package authentication generates the filters that validate the tokens of requests
// (RequestAuthentication).
//
// The inputs are the rules that apply to a proxy, and the keys of the issuers that they name. The
// output is the Envoy filters, which precede all filters that decide by tokens. Validation fails
// closed: a token that cannot be validated is rejected, whatever the reason, and a rule without
// keys accepts no token. A request without a token passes; an AuthorizationPolicy can require one.
//
// The filter writes the contents of a valid token to the metadata that package token names. Envoy
// first removes the headers that claims are copied to (outputClaimToHeaders) from every request;
// test/integration/jwt verifies that.
//
// Start with [Table.For] in table.go; rule.go collects the rules, and filter.go generates the
// filters.
package authentication
