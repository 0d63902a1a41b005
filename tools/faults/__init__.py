"""Faults by the hundred: every writing verb, ended or refused in the middle of its writes."""
