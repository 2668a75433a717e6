// Package load creates and deletes pods like the users of a fleet. The pods have the shapes of a
// real trace. It creates as many as fit, and then a new one for each one that ends. It records when
// the API server shows each pod bound and running. It also acts as the controller of the pods: a
// pod that was evicted returns under another name.
package load
