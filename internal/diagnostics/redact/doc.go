// Package redact removes secrets from texts that users send to others, for pilotctl bug-report.
//
// The input is a text ([Text]) or a JSON document ([JSON]), the output the same without private
// keys, tokens, passwords and similar values. It looks for the forms of secrets (PEM, JWT,
// credentials in URLs and headers) and for the names of fields and variables. It removes too much
// rather than too little: it cannot find a secret without a form in a field whose name does not
// show it.
//
// Invariants: the output of JSON is JSON, and redacting twice changes nothing.
package redact
