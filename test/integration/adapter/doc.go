// Package adapter tests samples/adapter as a process: the rules of pilotctl adapter test, and requests
// through a real Envoy while its services change and it is killed. The rules and changes of services are also
// tested with samples/adapter/python. Start with TestNoRequestIsLost.
package adapter
