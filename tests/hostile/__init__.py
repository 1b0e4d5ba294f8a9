"""What a hostile, failing or merely careless part may do to the others: one test a finding."""
