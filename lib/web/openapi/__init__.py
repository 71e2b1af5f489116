"""The API's description, OpenAPI 3.1. Nothing of it is imported before somebody asks for it.

table        each route: what it takes and answers, told in models
answers      models of what it answers: jobs, orders, ticks, health
mending      the same for those who mend
planning     the same for reports, schedules, webhooks
document     the description, made of the table and of the application's own routes
page         the same for people
"""
